"""A mono stream at another rate, by libsoxr: the same samples for any size of blocks."""

from __future__ import annotations

import numpy as np

from tasks.base.arrays import RATE, Float32s


class MonoStream:
    """Samples at the native rate in, samples at `rate` out."""

    def __init__(self, native: int, rate: int = RATE, quality: str = "HQ") -> None:
        import soxr

        same = native == rate
        self._engine = None if same else soxr.ResampleStream(native, rate, 1, "float32", quality)

    def push(self, mono: Float32s, last: bool = False) -> Float32s:
        """Float32 [n] to the samples [m] that are now known."""
        if self._engine is None:
            return mono
        resampled: Float32s = self._engine.resample_chunk(np.ascontiguousarray(mono), last=last)
        return resampled

    def finish(self) -> Float32s:
        """The remaining samples."""
        return self.push(np.empty(0, np.float32), last=True)
