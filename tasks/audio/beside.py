"""How loud the other channels of a file are beside the one that is heard, while it is decoded."""

from __future__ import annotations

import numpy as np

from tasks.base.arrays import Float32s, Float64s

FRAME = 0.02  # s
SILENT = 1e-12  # power, -120 dBFS


class Beside:
    """Levels of frames of FRAME: of the channel that is heard, and of the loudest other one."""

    def __init__(self, rate: int, channel: int) -> None:
        self.start = 0  # first sample of the recording that was decoded
        self._size, self._channel = max(round(rate * FRAME), 1), channel
        self._rest: Float64s | None = None  # power sums of the frame that is not full yet
        self._count = 0  # samples in it
        self._frames: list[Float32s] = []

    def push(self, block: Float32s) -> None:
        """All channels of the file, float32 [n, channels]."""
        power = np.square(block, dtype=np.float64)
        lead = min((self._size - self._count) % self._size, len(block)) if self._count else 0
        if self._rest is not None and lead:
            self._rest += power[:lead].sum(axis=0)
            self._count += lead
        if self._rest is not None and self._count == self._size:
            self._add(self._rest[None])
            self._rest, self._count = None, 0
        whole = power[lead:]
        full = len(whole) // self._size * self._size
        if full:
            self._add(whole[:full].reshape(-1, self._size, block.shape[1]).sum(axis=1))
        if len(whole) > full:
            self._rest, self._count = whole[full:].sum(axis=0), len(whole) - full

    def _add(self, sums: Float64s) -> None:
        mean = sums / self._size
        others = np.delete(mean, self._channel, axis=1).max(axis=1)
        pair = np.stack([mean[:, self._channel], others], 1)
        self._frames.append((10 * np.log10(np.maximum(pair, SILENT))).astype(np.float32))

    def levels(self, start: int, end: int) -> Float32s:
        """dBFS [frames, 2] between two samples of the recording: own, others."""
        frames = np.concatenate([np.empty((0, 2), np.float32), *self._frames])
        self._frames = [frames]  # joined once for all clips
        low = max(start - self.start, 0) // self._size
        return frames[low : max((end - self.start) // self._size, low)]
