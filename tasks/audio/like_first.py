"""Samples of one rate and number of channels as those of another, as a player does it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import av
import numpy as np

from tasks.audio.kinds import Samples

MOST_FRAMES = 65_536  # of a block


class LikeFirst:
    """Blocks in, blocks of `rate` and `channels` out; `rest` gives what the resampler still holds.

    Mono becomes equal channels; any other number of channels their mean, in each channel.
    """

    def __init__(self, own_rate: int, own_channels: int, rate: int, channels: int) -> None:
        self._mixed = own_channels != channels
        self._channels, self._rate = channels, own_rate
        self._layout = f"{channels} channels"
        # A block may grow by the ratio of the rates, which is what the file says: up to 768.
        self._step = max(MOST_FRAMES * own_rate // max(rate, own_rate), 1)
        self._resampler: Any = None
        if own_rate != rate:
            self._resampler = av.AudioResampler(format="flt", layout=self._layout, rate=rate)

    def push(self, block: Samples) -> Iterator[Samples]:
        for at in range(0, len(block), self._step):
            yield from self._converted(block[at : at + self._step])

    def _converted(self, block: Samples) -> list[Samples]:
        if self._mixed:
            block = np.repeat(block.mean(axis=1, dtype=np.float32)[:, None], self._channels, axis=1)
        if self._resampler is None:
            return [block]
        packed = np.ascontiguousarray(block, np.float32).reshape(1, -1)
        frame = av.AudioFrame.from_ndarray(packed, "flt", self._layout)
        frame.sample_rate = self._rate
        return list(self._grids(frame))

    def rest(self) -> list[Samples]:
        return [] if self._resampler is None else list(self._grids(None))

    def _grids(self, frame: Any) -> Iterator[Samples]:
        for ready in self._resampler.resample(frame):
            values = np.frombuffer(ready.planes[0], np.float32, ready.samples * self._channels)
            if ready.samples:
                yield values.reshape(-1, self._channels).copy()
