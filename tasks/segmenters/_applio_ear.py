"""A recording as Applio's slicer hears it: at one rate, with a high-pass at 48 Hz."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float32]

CUTOFF_HZ, ORDER = 48.0, 5  # Butterworth, one pass forwards
QUALITY = "VHQ"  # of libsoxr, as librosa's `soxr_vhq`


class Ear:
    """Resamples and filters a stream of mono samples. `heard`: samples at `rate` so far.

    The high-pass is in second-order sections; Applio's is one transfer function, which agrees to
    2e-6 at these rates.
    """

    def __init__(self, native: int, rate: int, highpass: bool) -> None:
        import soxr

        self.rate = rate
        self.heard = 0
        self._native, self._pushed = native, 0
        same = native == rate
        self._stream = None if same else soxr.ResampleStream(native, rate, 1, "float32", QUALITY)
        self._sections: NDArray[np.float64] | None = None
        if highpass:
            from scipy import signal

            self._sections = signal.butter(ORDER, CUTOFF_HZ, "highpass", output="sos", fs=rate)
            self._state = np.zeros((len(self._sections), 2))

    def push(self, mono: Floats) -> Floats:
        """float32 [n] at the recording's rate to float32 [about n * rate / native]."""
        self._pushed += len(mono)
        return self._filtered(mono if self._stream is None else self._stream.resample_chunk(mono))

    def finish(self) -> Floats:
        """The remaining samples: the total is then ceil(n * rate / native), librosa's length."""
        if self._stream is None:
            return np.zeros(0, np.float32)
        rest = self._stream.resample_chunk(np.zeros(0, np.float32), last=True)
        due = -(-self._pushed * self.rate // self._native) - self.heard
        return self._filtered(np.pad(rest[:due], (0, max(due - len(rest), 0))))

    def place(self, at: int) -> int:
        """The sample of the recording nearest to a heard one."""
        return min((2 * at * self._native + self.rate) // (2 * self.rate), self._pushed)

    def _filtered(self, samples: Floats) -> Floats:
        self.heard += len(samples)
        if self._sections is None or not len(samples):
            return samples
        from scipy import signal

        found, self._state = signal.sosfilt(
            self._sections, samples.astype(np.float64), zi=self._state
        )
        return np.asarray(found, np.float32)
