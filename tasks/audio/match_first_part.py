"""Converts a part of a recording to the rate and channels of its first part, as a player does."""

from __future__ import annotations

from collections.abc import Iterator

import av
import numpy as np

from tasks.audio.types import Samples

MOST_FRAMES = 65_536  # of a block


class LikeFirst:
    """Converts blocks to `rate` and `channels`; `rest` gives what the resampler still holds.

    Where the number of channels differs, each channel becomes the mean of the part's own channels.
    """

    def __init__(self, own_rate: int, own_channels: int, rate: int, channels: int) -> None:
        self._mixed = own_channels != channels
        self._channels, self._rate = channels, own_rate
        self._layout = f"{channels} channels"
        # A block grows by the ratio of the rates in the file, which may be as high as 768.
        self._step = max(MOST_FRAMES * own_rate // max(rate, own_rate), 1)
        self._resampler: av.AudioResampler | None = None
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
        return list(self._resampled(self._resampler, frame))

    def rest(self) -> list[Samples]:
        return [] if self._resampler is None else list(self._resampled(self._resampler, None))

    def _resampled(
        self, resampler: av.AudioResampler, frame: av.AudioFrame | None
    ) -> Iterator[Samples]:
        for ready in resampler.resample(frame):
            values = np.frombuffer(
                memoryview(ready.planes[0]), np.float32, ready.samples * self._channels
            )
            if ready.samples:
                yield values.reshape(-1, self._channels).copy()
