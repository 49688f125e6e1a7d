"""Resamples a mono stream by libsoxr: the result does not depend on the size of blocks."""

from __future__ import annotations

import numpy as np

from ..base.arrays import RATE, Float32s


class MonoStream:
    """Takes samples at the native rate and returns samples at `rate`."""

    def __init__(self, native: int, rate: int = RATE, quality: str = "HQ") -> None:
        import soxr

        same = native == rate
        self._engine = None if same else soxr.ResampleStream(native, rate, 1, "float32", quality)

    def push(self, mono: Float32s, last: bool = False) -> Float32s:
        """Takes float32 [n]; returns the finished samples [m]."""
        if self._engine is None:
            return mono
        resampled: Float32s = self._engine.resample_chunk(np.ascontiguousarray(mono), last=last)
        return resampled

    def finish(self) -> Float32s:
        """The remaining samples."""
        return self.push(np.empty(0, np.float32), last=True)
