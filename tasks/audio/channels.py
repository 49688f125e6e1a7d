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

from ..base.arrays import Float32s, Float64s
from .types import Weights, energy

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


# Compares a channel with the file's other channels while it is decoded, and removes their leakage
# from it.

FRAME = 0.02  # s
SILENT = 1e-12  # power, -120 dBFS
LOUDER = 10.0  # dB by which another channel is louder when this one holds only leakage from it
ECHO = 12  # frames by which leakage may be delayed
SOFTER = 1e-2  # gain for leakage, -40 dB: zeros would click


class Beside:
    """Levels of frames of FRAME s: of the channel in use, and of the loudest other one."""

    def __init__(self, rate: int, channel: int) -> None:
        self.start = 0  # first decoded sample of the recording
        self.size, self._channel = max(round(rate * FRAME), 1), channel
        self._rest: Float64s | None = None  # power sums of the incomplete frame
        self._count = 0  # samples in it
        self._frames = [np.empty((0, 2), np.float32)]

    def push(self, block: Float32s) -> None:
        """Add a block with all channels of the file, float32 [n, channels]."""
        power = np.square(block, dtype=np.float64)
        lead = min((self.size - self._count) % self.size, len(block)) if self._count else 0
        if self._rest is not None and lead:
            self._rest += power[:lead].sum(axis=0)
            self._count += lead
        if self._rest is not None and self._count == self.size:
            self._add(self._rest[None])
            self._rest, self._count = None, 0
        whole = power[lead:]
        full = len(whole) // self.size * self.size
        if full:
            self._add(whole[:full].reshape(-1, self.size, block.shape[1]).sum(axis=1))
        if len(whole) > full:
            self._rest, self._count = whole[full:].sum(axis=0), len(whole) - full

    def _add(self, sums: Float64s) -> None:
        mean = sums / self.size
        others = np.delete(mean, self._channel, axis=1).max(axis=1)
        pair = np.stack([mean[:, self._channel], others], 1)
        self._frames.append((10 * np.log10(np.maximum(pair, SILENT))).astype(np.float32))

    def levels(self, start: int, end: int) -> Float32s:
        """dBFS [frames, 2] between two samples of the recording: own, others."""
        low = max(start - self.start, 0) // self.size
        return self.frames(low, max((end - self.start) // self.size, low))

    def frames(self, low: int, high: int) -> Float32s:
        """dBFS [frames, 2] of frames `low` to `high`, counted from the first decoded one."""
        if len(self._frames) > 1:  # joined once for all clips
            self._frames = [np.concatenate(self._frames)]
        return self._frames[0][low:high]


class Unleaked(Listened):
    """A channel, attenuated where another one is LOUDER now or was just before, so that the other
    side of a call is not cut as speech of this one."""

    def __init__(self, beside: Beside) -> None:
        super().__init__(None)
        self._beside, self._frame = beside, 0
        self._pending = np.empty((0, 1), np.float32)
        self._before = np.full(ECHO, -np.inf, np.float32)  # levels of the others

    def push(self, block: Float32s) -> Float32s:
        """Takes float32 [n, 1] that `beside` has already got; returns the finished samples [m,
        1]."""
        size = self._beside.size
        pending = np.concatenate([self._pending, block])
        count = len(pending) // size
        self._pending = pending[count * size :]
        if not count:
            return pending[:0]
        level, others = self._beside.frames(self._frame, self._frame + count).T
        self._frame += count
        others = np.concatenate([self._before, others])
        self._before = others[-ECHO:]
        loudest = np.lib.stride_tricks.sliding_window_view(others, ECHO + 1).max(axis=1)
        frames = pending[: count * size].reshape(count, size, 1).copy()
        frames[loudest - level >= LOUDER] *= np.float32(SOFTER)
        return frames.reshape(-1, 1)

    def finish(self) -> Float32s | None:
        return self._pending if len(self._pending) else None


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
