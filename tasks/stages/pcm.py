"""From decoded samples to stored PCM: mono, target rate, exact length, int16.

Pure functions over arrays. Floats are in units of full scale: -1.0 is int16's -32768, so an int16
source at the target rate comes through bit for bit. Values beyond full scale are clamped, never
wrapped.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal, TypeVar

import numpy as np
from numpy.typing import NDArray

from .. import plugins
from ..audio import Clip
from ..audio.blocks import all_finite, energy, regroup
from ..audio.channels import CANCELLED, mean
from ..audio.types import Weights
from ..base.arrays import Float32s, Int16s
from ..base.errors import ItemError
from ..plugins.contracts import Resampler
from ..settings import ResampleSettings, StageSettings

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
        result = clamp.to_int16(finite(_joined(list(monos))))
    else:
        result = np.zeros(length, np.int16)
        _fill(result, monos, n, src_hz, settings, clamp.to_int16)
    clamp.check()
    return result


def _mixed(clip: Clip, settings: ResampleSettings) -> Iterator[Float32s]:
    """Mono blocks of a clip; ItemError `channels_cancel` after the last one."""
    rule = settings.mono
    if rule != "mean" or clip.channels == 1 or settings.channels_cancel == "keep":
        yield from (to_mono(block, rule, clip.weights) for block in clip.blocks())
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
        _fill(samples, monos, n, src_hz, settings, lambda block: block)
    for chosen in settings.levels:
        plugin, options = plugins.LEVELS.resolve(chosen)
        samples = plugin.apply(samples, settings.rate, options)
        if len(samples) != length:
            raise AssertionError(f"level {chosen.use} gave {len(samples)} of {length} samples")
    return finite(samples)


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
    for block in _resampled(monos, n, src_hz, settings, plugin, options):
        part = cast(finite(block))
        room = part[: length - position]
        result[position : position + len(room)] = room
        position += len(part)
    slack = SLACK + -(-settings.rate // src_hz)
    if abs(position - length) > slack:
        name = settings.resampler.use
        raise AssertionError(f"{name} gave {position} samples where {length} are due (±{slack})")


def _resampled(
    monos: Iterator[Float32s],
    n: int,
    src_hz: int,
    settings: ResampleSettings,
    plugin: Resampler,
    options: StageSettings,
) -> Iterator[Float32s]:
    if n <= STREAM_ABOVE_S * src_hz or plugin.stream is None:
        yield plugin.resample(finite(_joined(list(monos))), src_hz, settings.rate, options)
        return
    blocks = (finite(block) for block in regroup(monos, BLOCK))
    yield from plugin.stream(blocks, src_hz, settings.rate, options)


def _joined(pieces: list[Float32s]) -> Float32s:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces)


def finite(samples: Float32s) -> Float32s:
    """The samples; ItemError `non_finite` if one is NaN or infinite."""
    if not all_finite(samples):
        raise ItemError("non_finite", "a sample is NaN or infinite")
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
    """`to_int16` for the blocks of one clip; `check` reports severe clipping, as with floats in
    int16's scale."""

    def __init__(self) -> None:
        self._energy = self._lost = self._peak = 0.0

    def to_int16(self, samples: Float32s) -> Int16s:
        highest = max(float(samples.max(initial=0)), -float(samples.min(initial=0)))
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
