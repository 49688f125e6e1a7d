"""From decoded samples to stored PCM: mono, target rate, exact length, int16.

Pure functions over arrays. Floats are in units of full scale: -1.0 is int16's -32768, so an int16
source at the target rate comes through bit for bit. Values beyond full scale are clamped, never
wrapped.
"""

from __future__ import annotations

import errno
import os
import tempfile
from collections.abc import Callable, Container, Iterator
from contextlib import ExitStack
from io import FileIO
from math import isfinite
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import plugins
from ..audio import Clip
from ..audio.channels import CANCELLED, mean
from ..audio.types import Weights, all_finite, energy, regroup
from ..base.arrays import Float32s, Int16s
from ..base.errors import UNREACHABLE, ItemError, shortened
from ..settings import ResampleSettings
from ..settings.job import Job
from ..shard_store import recipe
from ..shard_store.blobs import MadeAudio, Pcm, sha256

Sample = TypeVar("Sample", np.float32, np.int16)

#: Clips longer than this go through a plug-in's `stream` if it has one: memory stays bounded.
STREAM_ABOVE_S = 120
#: Levels need the whole utterance as floats; longer ones are refused.
LEVEL_UP_TO_S = 600
#: Input samples per streamed block. Fixed, so that the result does not depend on the machine.
BLOCK = 1 << 18
#: A plug-in may be off by this many output samples, plus the output of one input sample.
SLACK = 2


def resampled_length(n: int, src_hz: int, dst_hz: int) -> int:
    """n * dst / src, halves rounded up, in integers: lhotse's result for the same clip."""
    return (2 * n * dst_hz + src_hz) // (2 * src_hz)


def to_mono(
    samples: Float32s, rule: Literal["mean", "first"] | int, weights: Weights | None = None
) -> Float32s:
    """[n, ch] (or [n]) to float32 [n]; `mean` uses the weights, if given. ItemError `unsupported`
    if the channel does not exist."""
    table = samples if samples.ndim == 2 else samples[:, None]
    channels = table.shape[1]
    if rule == "mean" and channels > 0:
        mono = mean(table, weights=weights)
    else:
        index = 0 if isinstance(rule, str) else rule
        if not 0 <= index < channels:
            raise ItemError("unsupported", f"channel {index} of a recording that has {channels}")
        mono = table[:, index]
    return np.ascontiguousarray(mono, dtype=np.float32)


def of_clip(clip: Clip, settings: ResampleSettings) -> Int16s:
    """PCM of a clip, int16 [resampled_length(num_samples)]; independent of the clip's blocks.

    ItemError `non_finite` if a sample is NaN or infinite, `unsupported` if the channel in the
    settings does not exist, `channels_cancel` if the mean leaves nothing, `over_full_scale` if
    int16 cuts off too much.
    """
    n, src_hz = clip.num_samples, clip.rate
    length = resampled_length(n, src_hz, settings.rate)
    if length == 0:
        return np.zeros(0, np.int16)
    monos, clamp = _mixed(clip, settings), Clamp()
    if settings.levels:
        result = clamp.to_int16(_levelled(monos, n, length, src_hz, settings))
    elif src_hz == settings.rate:
        result = clamp.to_int16(_joined(list(monos)))
    else:
        result = np.zeros(length, np.int16)
        _fill(result, monos, n, src_hz, settings, clamp.to_int16)
    clamp.check()
    return result


def _mixed(clip: Clip, settings: ResampleSettings) -> Iterator[Float32s]:
    """Mono blocks of a clip; ItemError `channels_cancel` after the last one."""
    rule = settings.mono
    if rule != "mean" or clip.channels == 1 or settings.channels_cancel == "keep":
        for block in clip.blocks():
            yield to_mono(block, rule, clip.weights)
        return
    power, mixed_power = np.zeros(clip.channels), 0.0
    for block in clip.blocks():
        mono = to_mono(block, rule, clip.weights)
        power += [float(np.dot(channel, channel)) for channel in block.T]
        mixed_power += float(np.dot(mono, mono))
        yield mono
    shares = np.array(clip.weights or 1.0) * (clip.channels if clip.weights else 1)
    if mixed_power * clip.channels**2 < CANCELLED * (power * shares**2).max():
        raise ItemError(
            "channels_cancel",
            f"mixed to one, its {clip.channels} channels cancel each other; take one of them with "
            "resample.mono=first, or keep what is left with resample.channels_cancel=keep",
        )


def _levelled(
    monos: Iterator[Float32s], n: int, length: int, src_hz: int, settings: ResampleSettings
) -> Float32s:
    """The whole utterance at the target rate, after all levels; float32 [length]."""
    if n > LEVEL_UP_TO_S * src_hz:
        raise ItemError(
            "unsupported",
            f"levels need the whole utterance in memory, and {n / src_hz:.0f} s are more than "
            f"{LEVEL_UP_TO_S} s",
        )
    if src_hz == settings.rate:
        samples = finite(_joined(list(monos)))
    else:
        samples = np.zeros(length, np.float32)
        _fill(samples, monos, n, src_hz, settings, finite)
    for chosen in settings.levels:
        plugin, options = plugins.LEVELS.resolve(chosen)
        samples = plugin.apply(samples, settings.rate, options)
        if len(samples) != length:
            raise AssertionError(f"level {chosen.use} gave {len(samples)} of {length} samples")
    return samples


def _fill(
    result: NDArray[Sample],
    monos: Iterator[Float32s],
    n: int,
    src_hz: int,
    settings: ResampleSettings,
    cast: Callable[[Float32s], NDArray[Sample]],
) -> None:
    """Resample into `result`, cut or padded with zeros to its length."""
    length = len(result)
    plugin, options = plugins.RESAMPLERS.resolve(settings.resampler)
    position = 0
    blocks: Iterator[Float32s]
    if n <= STREAM_ABOVE_S * src_hz or plugin.stream is None:
        whole = finite(_joined(list(monos)))
        blocks = iter([plugin.resample(whole, src_hz, settings.rate, options)])
    else:
        pieces = map(finite, regroup(monos, BLOCK))
        blocks = plugin.stream(pieces, src_hz, settings.rate, options)
    for block in blocks:
        part = cast(block)
        room = part[: length - position]
        result[position : position + len(room)] = room
        position += len(part)
    slack = SLACK + -(-settings.rate // src_hz)
    if abs(position - length) > slack:
        name = settings.resampler.use
        raise AssertionError(f"{name} gave {position} samples where {length} are due (±{slack})")


def _joined(pieces: list[Float32s]) -> Float32s:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


NOT_FINITE = "a sample is NaN or infinite"


def finite(samples: Float32s) -> Float32s:
    """The samples; ItemError `non_finite` if one is NaN or infinite."""
    if not all_finite(samples):
        raise ItemError("non_finite", NOT_FINITE)
    return samples


#: Share of a clip's energy that may be cut off. Lossy codecs and resamplers overshoot full scale:
#: 0.3 % of hot clips (measured on Vorbis), 2.1 % of a square wave of which only the fundamental is
#: left. Most clips of speech at three times full scale lose more.
MOST_CUT_OFF = 0.03


def to_int16(samples: Float32s) -> Int16s:
    """Clamp to full scale, round halves to even. The samples must be finite."""
    scaled = np.multiply(samples, np.float32(32768))
    np.rint(scaled, out=scaled)
    np.clip(scaled, -32768, 32767, out=scaled)
    return scaled.astype(np.int16)


class Clamp:
    """`to_int16` for the blocks of one clip. ItemError `non_finite` if one holds a NaN or an
    infinity; `check` reports severe clipping, as with floats in int16's scale."""

    def __init__(self) -> None:
        self._energy = self._lost = self._peak = 0.0

    def to_int16(self, samples: Float32s) -> Int16s:
        highest = max(float(samples.max(initial=0)), -float(samples.min(initial=0)))
        if not isfinite(highest):
            raise ItemError("non_finite", NOT_FINITE)
        self._peak = max(self._peak, highest)
        if highest <= 1:
            self._energy += energy(samples)
        else:  # in float64, where no square overflows
            wide = samples.astype(np.float64)
            beyond = np.maximum(np.abs(wide) - 1, 0)
            self._energy += float(np.vecdot(wide, wide))
            self._lost += float(np.vecdot(beyond, beyond))
        return to_int16(samples)

    def check(self) -> None:
        """ItemError `over_full_scale` if more than MOST_CUT_OFF of the energy was cut off."""
        if self._lost > MOST_CUT_OFF * self._energy:
            raise ItemError(
                "over_full_scale",
                f"its peak is {self._peak:.3g} times full scale, and cutting that off would take "
                f"{self._lost / self._energy:.0%} of its energy; bring it down with "
                "resample.levels=[{use: peak}]",
            )


# The PCM of a recording's clips, made while the recording is decoded to be cut.
#
# It waits until the recording has ended: only then is it known whether the file has changed
# meanwhile, and whether a measure of the whole recording drops a clip. The first IN_MEMORY bytes
# wait in memory (a file for each short recording takes a tenth of its time), the others in a file.


IN_MEMORY = 1 << 23  # bytes: four minutes at 16 kHz
Converted = tuple[int, int, str]  # start, end (samples at native rate), recipe of the PCM


def pcm_row(span: Converted, recording: str, samples: Pcm, rate: int) -> MadeAudio:
    start, end, audio = span
    return {
        "audio": audio,
        "recording": recording,
        "start": start,
        "end": end,
        "rate": rate,
        "num_samples": len(samples),
        "sha256": sha256(samples),
        "pcm": samples,
    }


def failed_row(span: Converted, recording: str, code: str, detail: str) -> MadeAudio:
    start, end, audio = span
    row: MadeAudio = {"audio": audio, "recording": recording, "start": start, "end": end}
    return {**row, "error_code": code, "error_detail": shortened(detail)}


def code_of(error: ItemError | MemoryError) -> tuple[str, str]:
    """Code and detail of an error that concerns one clip."""
    if isinstance(error, ItemError):
        return error.code, error.detail
    return "out_of_memory", str(error)


class Conversion(ExitStack):
    """Converts clips of one recording, inside its context.

    `content`: its samples, as recipes of PCM name them; `stored`: recipes of PCM that exists
    already. Clips beyond `job.cache_bytes` of PCM are left out."""

    def __init__(self, job: Job, recording: str, content: str, stored: Container[str]) -> None:
        super().__init__()
        self._job, self._recording, self._stored = job, recording, stored
        self._recipe = recipe.audio_recipes(job.resample)(content)
        self._rows: dict[str, MadeAudio] = {}  # by recipe
        self._bytes = 0
        self._file: FileIO | None = None

    def add(self, start: int, end: int, clip: Clip) -> None:
        """Convert a clip that passes the filters. ItemError `unreachable` if it has to be decoded
        again, and cannot be read now."""
        settings, audio = self._job.resample, self._recipe(start, end)
        if audio in self._stored or audio in self._rows:  # such as a span that is given twice
            return
        length = resampled_length(clip.num_samples, clip.rate, settings.rate)
        if self._bytes + 2 * length > self._job.cache_bytes:
            return
        span = start, end, audio
        try:
            samples = of_clip(clip, settings)
        except (ItemError, MemoryError) as error:
            code, detail = code_of(error)
            if code == UNREACHABLE:
                raise
            self._rows[audio] = failed_row(span, self._recording, code, detail)
            return
        row = pcm_row(span, self._recording, samples, settings.rate)
        if self._bytes + 2 * length > IN_MEMORY:
            try:
                row["offset"] = self._write(row.pop("pcm"))
            except OSError:  # a full disk: the resample stage decodes again
                self._rows.clear()
                self._bytes = self._job.cache_bytes
                return
        self._rows[audio] = row
        self._bytes += 2 * length

    def _write(self, samples: Pcm) -> int:
        """Append samples to the file; returns their offset, bytes."""
        if self._file is None:
            scratch = self._job.scratch
            if scratch is not None:
                scratch.mkdir(parents=True, exist_ok=True)
            file = tempfile.TemporaryFile(dir=scratch, buffering=0)  # noqa: SIM115
            self._file = self.enter_context(file)
        data, offset = np.ascontiguousarray(samples, "<i2").data, self._file.tell()
        if self._file.write(data) < data.nbytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return offset

    def drop(self, start: int, end: int) -> None:
        """Leave out a clip that a measure of the whole recording rejects."""
        self._rows.pop(self._recipe(start, end), None)

    def rows(self) -> list[MadeAudio]:
        """The rows of all clips, with their samples, which outlive the context."""
        if self._file is not None and self._rows:
            data = np.memmap(self._file, "<i2", "r")
            for row in self._rows.values():
                if "offset" in row:
                    first = row["offset"] // 2
                    row["pcm"] = data[first : first + row["num_samples"]]
        return [*self._rows.values()]
