"""Mixes a recording's channels, for segmenters and for the PCM, and detects channels that cancel.

Mono, stereo and channels without known places are mixed as their mean, others by their weights.

numpy's own mean over rows of two values takes ten times as long as adding columns.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import DTypeLike

from ..base.arrays import Float32s
from .blocks import energy
from .types import Weights

#: From this many channels on, numpy adds eight values of a row at once and rounds differently.
MANY = 8

#: If the sum of the channels has less than this part of the loudest one's power (-40 dB), they are
#: the same sound with opposite sign, and their mean is almost nothing.
CANCELLED = 1e-4
STRETCH = 1 << 14  # samples for which `Heard` decides between mix and loudest channel


def mean(
    samples: Float32s, dtype: DTypeLike = np.float64, weights: Weights | None = None
) -> Float32s:
    """float32 [n, channels] to float32 [n], summed in `dtype`: by weights, or without them bit for
    bit numpy's mean. In float64, two channels at full scale lose no bit."""
    count = samples.shape[1]
    if weights is not None and count > 1:
        return _weighted(samples, dtype, weights)
    if count == 1:
        return samples[:, 0]
    if count >= MANY:
        means: Float32s = samples.mean(axis=1, dtype=dtype).astype(np.float32)
        return means
    if count == 2:
        # Two float32 sum to the same value directly and through float64, which has more than twice
        # the bits; only sums too large for float32 need float64.
        with np.errstate(over="ignore", invalid="ignore"):
            half = samples[:, 0] + samples[:, 1]
        half *= np.float32(0.5)
        if np.isfinite(half).all():
            return half
    with np.errstate(invalid="ignore"):  # opposite infinities give NaN, as they should
        total = np.add(samples[:, 0], samples[:, 1], dtype=dtype)
        for channel in range(2, count):
            total += samples[:, channel]
        total /= count
    return total.astype(np.float32, copy=False)


def _weighted(samples: Float32s, dtype: DTypeLike, weights: Weights) -> Float32s:
    total = np.zeros(len(samples), dtype)
    with np.errstate(invalid="ignore"):
        for channel, weight in enumerate(weights):
            if weight:
                total += samples[:, channel] * np.asarray(weight, dtype)
    return total.astype(np.float32, copy=False)


class Heard:
    """The mix of the channels for detectors, block by block; where the channels cancel each other,
    the loudest one, so that speech does not pass for silence. Decides by fixed stretches, so that
    the result does not depend on the blocks."""

    def __init__(self, dtype: DTypeLike = np.float64, weights: Weights | None = None) -> None:
        self._dtype, self._weights = dtype, weights
        self._pending: Float32s | None = None

    def push(self, block: Float32s) -> Float32s:
        """Takes float32 [n, channels]; returns the finished samples [m]."""
        if block.shape[1] == 1:
            return block[:, 0]
        pending = block if self._pending is None else np.concatenate([self._pending, block])
        cut = len(pending) - len(pending) % STRETCH
        self._pending = pending[cut:].copy()
        parts = [self._of(pending[start : start + STRETCH]) for start in range(0, cut, STRETCH)]
        return np.concatenate([np.empty(0, np.float32), *parts])

    def finish(self) -> Float32s:
        """The remaining samples."""
        return np.empty(0, np.float32) if self._pending is None else self._of(self._pending)

    def _of(self, samples: Float32s) -> Float32s:
        mixed = mean(samples, self._dtype, self._weights)
        count = samples.shape[1]
        shares = [count * weight for weight in self._weights or ()] or count * [1.0]
        least = energy(mixed) * count**2 / CANCELLED
        # The energy of all channels together is cheaper than of each.
        if not least < energy(samples) * max(shares) ** 2:
            return mixed
        channels = samples.T.copy()
        energies = [
            energy(channel) * share**2 for channel, share in zip(channels, shares, strict=True)
        ]
        loudest = energies.index(max(energies))
        return channels[loudest] if least < energies[loudest] else mixed


class Listened:
    """Blocks for detectors, float32 [n, channels]: unchanged, since detectors mix them by `Heard`,
    or already mixed to [n, 1] if the channels have known positions."""

    def __init__(self, weights: Weights | None) -> None:
        self._ear = None if weights is None else Heard(weights=weights)

    def push(self, block: Float32s) -> Float32s:
        return block if self._ear is None else self._ear.push(block)[:, None]

    def finish(self) -> Float32s | None:
        """The remaining samples; None if there are none."""
        rest = None if self._ear is None else self._ear.finish()
        return None if rest is None or not len(rest) else rest[:, None]

    def process(self, blocks: Iterable[Float32s]) -> Iterator[Float32s]:
        """All of these blocks, processed; none of them empty."""
        for block in blocks:
            if len(listened := self.push(block)):
                yield listened
        if (rest := self.finish()) is not None:
            yield rest
