"""Statistics of a clip's samples that several filters share, computed in one pass.

The stream is regrouped into chunks of one length before summing, so that results do not depend on
the block size, to the last bit. Channels are those that go into the mix: what an LFE holds is no
speech.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from tasks.audio import BLOCK_FRAMES, BLOCK_VALUES, Clip
from tasks.audio.blocks import regroup
from tasks.base.arrays import Float32s, Float64s
from tasks.filters import _derived as derived

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
    """Of the whole clip; None if it has no samples or one that is not finite."""
    return derived.cached(clip, "levels", lambda: _levels(clip))


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


def decibels(power: float) -> float | None:
    """10 log10 of a power ratio, at least `FLOOR_DB`; None if it is not finite."""
    if not math.isfinite(power):
        return None
    return max(10 * math.log10(power), FLOOR_DB) if power > 0 else FLOOR_DB
