"""Compares a channel with the file's other channels while it is decoded, and removes their leakage
from it."""

from __future__ import annotations

import numpy as np

from ..base.arrays import Float32s, Float64s
from .channels import Listened

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
