"""Signals that several measures derive from a clip: mono, mono at 16 kHz, speech probabilities.

Mono is the mean of the channels, or where they cancel each other one of them.

For clips of up to `KEPT_SECONDS` they are computed once and cached on the clip; for longer ones
they are computed block by block, so that memory does not grow with the length.
"""

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import TypeVar, cast

import numpy as np

from ..audio import BLOCK_FRAMES, BLOCK_VALUES, Clip
from ..audio.channels import Heard
from ..audio.types import regroup
from ..base.arrays import RATE, Float32s, Float64s
from ..models import registry
from ..settings import StageSettings
from ..speech.silero import MonoStream, Probabilities

T = TypeVar("T")

KEPT_SECONDS = 120.0


def model_bytes(settings: StageSettings) -> int:
    """Of filters that ask for `speech_probabilities`."""
    return registry.SILERO.size


def cached(clip: Clip, name: str, compute: Callable[[], T]) -> T:
    """`compute()`, once per clip and name; the result lives as long as the clip."""
    if name not in clip.derived:
        clip.derived[name] = compute()
    return cast(T, clip.derived[name])


def mono_blocks(clip: Clip) -> Iterator[Float32s]:
    """The mono signal at the native rate, float32 [n] block by block."""
    ear = Heard(weights=clip.weights)
    yield from map(ear.push, clip.blocks())
    yield ear.finish()


def blocks_16k(clip: Clip) -> Iterator[Float32s]:
    """The mono signal at 16 kHz (soxr HQ, one stream), float32 [n] block by block."""
    if clip.seconds <= KEPT_SECONDS:
        yield mono_16k(clip)
    else:
        yield from _resampled(clip)


def first_16k(clip: Clip, seconds: float) -> Float32s:
    """The first seconds of `blocks_16k`, float32 [n]."""
    pieces = regroup(blocks_16k(clip), round(seconds * RATE))
    return next(pieces, np.empty(0, np.float32))


def parts_16k(clip: Clip, seconds: float) -> Iterator[Float32s]:
    """`blocks_16k` in parts of about equal length, at most `seconds`; the last may be shorter."""
    size = math.ceil(RATE * clip.seconds / max(math.ceil(clip.seconds / seconds), 1))
    yield from regroup(blocks_16k(clip), max(size, 1))


def mono_16k(clip: Clip) -> Float32s:
    """`blocks_16k` in one piece, float32 [n], of a clip of up to KEPT_SECONDS."""
    return cached(clip, "mono_16k", lambda: _joined(list(_resampled(clip))))


def speech_probabilities(clip: Clip) -> Float32s:
    """Silero's speech probability of each 32 ms window (512 samples at 16 kHz), float32 [n]."""

    def run() -> Float32s:
        model = Probabilities(clip.rate, clip.weights)
        return _joined([*map(model.push, clip.blocks()), model.finish()])

    return cached(clip, "speech", run)


def frames(
    blocks: Iterable[Float32s], size: int, hop: int, counts: Iterable[int]
) -> Iterator[Float32s]:
    """Whole frames [n, size] of a mono signal, one every `hop` samples, in batches of `counts`.

    Batches do not depend on the blocks: the last bits of a sum may depend on how many rows are
    summed at once. The last batch has the frames that are left.
    """
    rest = iter(blocks)
    samples = np.empty(0, np.float32)
    for count in counts:
        last = (count - 1) * hop + size
        needed = max(last, count * hop)
        pieces, length = [samples], len(samples)
        while length < needed and (block := next(rest, None)) is not None:
            pieces.append(block)
            length += len(block)
        samples = _joined([piece for piece in pieces if len(piece)])
        if length < size:
            return
        yield np.lib.stride_tricks.sliding_window_view(samples[:last], size)[::hop]
        samples = samples[count * hop :]


def _resampled(clip: Clip) -> Iterator[Float32s]:
    stream = MonoStream(clip.rate)
    yield from map(stream.push, mono_blocks(clip))
    if len(rest := stream.finish()):
        yield rest


def _joined(pieces: list[Float32s]) -> Float32s:
    return pieces[0] if len(pieces) == 1 else np.concatenate(pieces or [np.empty(0, np.float32)])


# Statistics of a clip's samples that several filters share, computed in one pass.
#
# The stream is regrouped into chunks of one length before summing, so that results do not depend on
# the block size, to the last bit. Only channels in the mix count: an LFE holds no speech.

#: Level of digital silence, dBFS: a number for limits, far below one bit of 24-bit samples (-138).
FLOOR_DB = -200.0
ROUNDING = 1e-14  # relative error of a power; float64 has 16 digits


@dataclass(frozen=True, slots=True)
class Levels:
    """Full scale is 1. `variance` is the mean square without the constant offset."""

    peak: float
    mean: Float64s  # [channels]
    power: Float64s  # [channels], mean square
    variance: Float64s  # [channels]
    sum_variance: float  # of the sum of the channels


def levels(clip: Clip) -> Levels | None:
    """Levels of the whole clip; None if it has no samples, or one that is not finite."""
    return cached(clip, "levels", lambda: _levels(clip))


def _levels(clip: Clip) -> Levels | None:
    count, peak, sum_power = 0, 0.0, 0.0
    total, power = np.zeros(len(clip.in_mix)), np.zeros(len(clip.in_mix))
    for chunk in chunks(clip):
        highest = max(float(chunk.max()), -float(chunk.min()))
        if not math.isfinite(highest):
            return None
        count, peak = count + len(chunk), max(peak, highest)
        rows = np.ascontiguousarray(chunk.T, dtype=np.float64)  # [channels, n]: sums run along rows
        total += rows.sum(axis=1)
        # einsum, not BLAS, whose threads would only wait for each other.
        power += np.einsum("ij,ij->i", rows, rows)
        mixed = rows.sum(axis=0)
        sum_power += float(np.einsum("i,i", mixed, mixed))
    if not count:
        return None
    mean, power = total / count, power / count
    # Subtract the rounding error of a large offset.
    variance = np.maximum(power - mean**2 - ROUNDING * power, 0.0)
    rest = sum_power / count - float(mean.sum()) ** 2 - ROUNDING * sum_power / count
    return Levels(peak, mean, power, variance, max(rest, 0.0))


def chunks(clip: Clip, step: int = 1) -> Iterator[Float32s]:
    """float32 [n, channels in the mix], of one length, a multiple of `step`, but for the last."""
    frames = min(BLOCK_FRAMES, BLOCK_VALUES // max(len(clip.in_mix), 1))
    return regroup(clip.mixed_blocks(), step * max(frames // step, 1))


def bounded_decibels(power: float, beside: float, lowest: float, highest: float) -> float:
    """10 log10 of a ratio of powers, either of which may be zero, within two limits."""
    if power <= beside * 10 ** (lowest / 10):
        return lowest
    if power >= beside * 10 ** (highest / 10):
        return highest
    return 10 * math.log10(power / beside)


def decibels(power: float) -> float | None:
    """10 log10 of a power ratio, at least `FLOOR_DB`; None if it is not finite."""
    if not math.isfinite(power):
        return None
    return max(10 * math.log10(power), FLOOR_DB) if power > 0 else FLOOR_DB
