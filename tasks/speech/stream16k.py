"""A mono stream at 16 kHz, block by block, the same for any size of blocks."""

from __future__ import annotations

import numpy as np

from tasks.arrays import Float32s
from tasks.speech_rate import RATE


class At16k:
    """Samples at the native rate in, samples at 16 kHz out."""

    def __init__(self, rate: int) -> None:
        import soxr

        self._piece = rate  # samples that the resampler gets at once
        self._held: list[Float32s] = []
        self._count = 0
        self._resample = (
            None if rate == RATE else soxr.ResampleStream(rate, RATE, 1, "float32", "HQ")
        )

    def push(self, mono: Float32s) -> Float32s:
        """Float32 [n] to the samples [m] that are now known."""
        self._held.append(mono)
        self._count += len(mono)
        if self._count < self._piece:
            return np.empty(0, np.float32)
        whole = np.concatenate(self._held)
        cut = len(whole) - len(whole) % self._piece
        self._held, self._count = [whole[cut:].copy()], len(whole) - cut
        pieces = [whole[at : at + self._piece] for at in range(0, cut, self._piece)]
        return np.concatenate([self._converted(piece, last=False) for piece in pieces])

    def finish(self) -> Float32s:
        """The remaining samples."""
        rest = np.concatenate(self._held) if self._held else np.empty(0, np.float32)
        self._held, self._count = [], 0
        return self._converted(rest, last=True)

    def _converted(self, piece: Float32s, last: bool) -> Float32s:
        if self._resample is None:
            return piece
        found: Float32s = self._resample.resample_chunk(np.ascontiguousarray(piece), last=last)
        return found
