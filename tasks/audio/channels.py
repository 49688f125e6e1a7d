"""Mixes a recording's channels, for segmenters and for the PCM, and detects channels that cancel.

Mono and stereo are mixed as the plain mean, and so are channels without stated positions, such as
those of a microphone array; others by their weights, as in FFmpeg.

numpy's own mean over rows of two values takes ten times as long as adding columns.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import DTypeLike

from ..base.arrays import Float32s
from .blocks import energy
from .types import Weights

if TYPE_CHECKING:
    from av.audio.layout import AudioLayout

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
    if count == 1:
        return samples[:, 0]
    if weights is not None:
        total = np.zeros(len(samples), dtype)
        with np.errstate(invalid="ignore"):
            for channel, weight in enumerate(weights):
                if weight:
                    total += samples[:, channel] * np.asarray(weight, dtype)
        return total.astype(np.float32, copy=False)
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


# Layouts of channels: the weight of each in the mix to mono.

_CLOSE, _AROUND = 2**-0.5, 0.5
#: swresample's share of each position in a centre channel; others (LFE, heights) are left out.
_SHARES = {
    "FC": 1.0,
    **dict.fromkeys(("FL", "FR", "FLC", "FRC"), _CLOSE),
    **dict.fromkeys(("BL", "BR", "BC", "SL", "SR"), _AROUND),
}
#: FFmpeg's names for channels without a position.
_NOWHERE = ("UNK", "UNSD", "NONE", "USR", "AMBI")
#: Positions in Vorbis's order, by number of channels.
_VORBIS = {
    3: ("FL", "FC", "FR"),
    4: ("FL", "FR", "BL", "BR"),
    5: ("FL", "FC", "FR", "BL", "BR"),
    6: ("FL", "FC", "FR", "BL", "BR", "LFE"),
    7: ("FL", "FC", "FR", "SL", "SR", "BC", "LFE"),
    8: ("FL", "FC", "FR", "SL", "SR", "BL", "BR", "LFE"),
}
#: A custom order as FFmpeg writes it: "3 channels (FC+FL+FR)".
_ORDER = re.compile(r"\d+ channels \(([^)]*)\)")


def weights_at(places: Sequence[str]) -> Weights | None:
    """Weights of channels at these positions, in FFmpeg's words; their sum is at most 1, so that
    the mix cannot exceed full scale. None: the plain mean."""
    if len(places) < 3 or any(place.startswith(_NOWHERE) for place in places):
        return None
    shares = [_SHARES.get(place, 0.0) for place in places]
    total = sum(shares)
    return tuple(share / max(total, 1.0) for share in shares) if total else None


def custom(name: str) -> tuple[str, ...]:
    """The positions in the name of FFmpeg's layout if their order is unusual; empty if it is usual,
    as in "5.1(side)"."""
    order = _ORDER.fullmatch(name)
    return tuple(order[1].split("+")) if order else ()


def weights_of(layout: AudioLayout) -> Weights | None:
    """Weights of an FFmpeg layout with the usual order; None: the plain mean."""
    if layout.nb_channels < 3 or layout.name.endswith(" channels"):
        return None
    return weights_at([channel.name for channel in layout.channels])


def of_ogg(head: bytes, channels: int) -> Weights | None:
    """Weights from the first bytes of an Ogg file: Vorbis prescribes an order, which Opus shares if
    its mapping family is 1 (RFC 7845, 5.1.1)."""
    start = head.find(b"OpusHead")
    if start >= 0 and head[start + 18 : start + 19] != b"\1":
        return None
    return weights_at(_VORBIS.get(channels, ()))
