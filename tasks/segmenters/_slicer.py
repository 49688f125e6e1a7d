"""Slice a recording at silence: the algorithm "slicer2" of audio-slicer, in Applio's form.

Applio hears a recording at one rate, with a high-pass at 48 Hz (`Ear`). In: mono samples. Out:
slices (begin, end) in frames. Frame i is `win` samples around sample i * hop, zeros beyond the
ends; it is silent when its RMS is below the threshold.

A run of silent frames is a pause when it has `min_interval` frames and the slice before it
`min_length`. A pause of up to `max_kept` frames splits at its quietest frame and loses nothing; a
longer one loses what lies between the quietest of its first `max_kept` frames and the quietest of
its last. (The published code treats up to twice `max_kept` separately, with the same result.)
Silence at the start longer than `max_kept` is lost up to the quietest of its last frames, and
silence at the end from the quietest of its first.
"""

from __future__ import annotations

from collections import deque

import numpy as np

from tasks.base.arrays import Float32s, Float64s
from tasks.speech.mono_stream import MonoStream

CUTOFF_HZ, ORDER = 48.0, 5  # Butterworth, one pass forwards
QUALITY = "VHQ"  # of libsoxr, as librosa's `soxr_vhq`


class Ear:
    """Resamples and filters a stream of mono samples. `heard`: samples at `rate` so far.

    The high-pass is in second-order sections; Applio's is one transfer function, which agrees to
    2e-6 at these rates.
    """

    def __init__(self, native: int, rate: int, highpass: bool) -> None:
        self.rate = rate
        self.heard = 0
        self._native, self._pushed = native, 0
        self._stream = MonoStream(native, rate, QUALITY)
        self._sections: Float64s | None = None
        if highpass:
            from scipy import signal

            self._sections = signal.butter(ORDER, CUTOFF_HZ, "highpass", output="sos", fs=rate)
            self._state = np.zeros((len(self._sections), 2))

    def push(self, mono: Float32s) -> Float32s:
        """float32 [n] at the recording's rate to float32 [about n * rate / native]."""
        self._pushed += len(mono)
        return self._filtered(self._stream.push(mono))

    def finish(self) -> Float32s:
        """The remaining samples: the total is then ceil(n * rate / native), librosa's length."""
        rest = self._stream.finish()
        due = -(-self._pushed * self.rate // self._native) - self.heard
        return self._filtered(np.pad(rest[:due], (0, max(due - len(rest), 0))))

    def place(self, heard: int) -> int:
        """The sample of the recording nearest to a heard one."""
        return min((2 * heard * self._native + self.rate) // (2 * self.rate), self._pushed)

    def _filtered(self, samples: Float32s) -> Float32s:
        self.heard += len(samples)
        if self._sections is None or not len(samples):
            return samples
        from scipy import signal

        output, self._state = signal.sosfilt(
            self._sections, samples.astype(np.float64), zi=self._state
        )
        return np.asarray(output, np.float32)


class FrameRms:
    """RMS of frames from a stream of mono samples, independent of the block size.

    Summed in float64. Applio sums in float32, which may choose the other of two frames that are
    equally quiet but for rounding.
    """

    def __init__(self, hop: int, win: int) -> None:
        self._hop, self._win = hop, win
        self._held = np.zeros(win // 2, np.float32)

    def push(self, mono: Float32s) -> list[float]:
        self._held = np.concatenate([self._held, mono])
        count = (len(self._held) - self._win) // self._hop + 1
        if count <= 0:
            return []
        frames = np.lib.stride_tricks.sliding_window_view(self._held, self._win)[:: self._hop]
        wide = frames[:count].astype(np.float64)
        powers = np.einsum("ij,ij->i", wide, wide) / self._win
        self._held = self._held[count * self._hop :].copy()
        levels: list[float] = np.sqrt(powers).tolist()
        return levels

    def finish(self) -> list[float]:
        return self.push(np.zeros(self._win // 2, np.float32))


class Slicer:
    """Takes the RMS of each frame; `final` collects final slices, which the caller empties.

    `open_start` is where the open slice begins, None during a pause that has already ended it.
    Silence at the start counts as an open slice until sound follows: a recording that is silent
    throughout has one slice, of at most `max_kept` frames.
    """

    def __init__(self, threshold: float, min_length: int, min_interval: int, max_kept: int) -> None:
        self._threshold = threshold
        self._min_length, self._min_interval, self._kept = min_length, min_interval, max_kept
        self.final: list[tuple[int, int]] = []
        self.open_start: int | None = 0
        self._at = 0  # frames seen
        self._length_from = 0  # frame from which `min_length` counts
        self._silence: int | None = None  # start of the silence at hand
        self._first: list[float] = []  # RMS of its first frames
        self._last: deque[float] = deque(maxlen=max_kept)  # and of its last ones

    @property
    def open_until(self) -> int:
        """The open slice lasts at least up to this frame."""
        return self._at if self._silence is None else self._silence

    @property
    def earliest_pending(self) -> int:
        """No slice that is not yet in `final` begins before this frame."""
        return self.open_start if self.open_start is not None else max(self._at - self._kept, 0)

    def push(self, rms: float) -> None:
        if rms < self._threshold:
            if self._silence is None:
                self._silence = self._at
                self._first.clear()
                self._last.clear()
            if len(self._first) < 2 * self._kept:
                self._first.append(rms)
            self._last.append(rms)
            self._end_early(self._silence)
        elif self._silence is not None:
            self._end_silence(self._silence)
            self._silence = None
        self._at += 1

    def finish(self) -> None:
        """The recording ended."""
        if self._silence is not None and self._at - self._silence >= self._min_interval:
            self._end(self._silence + _lowest(self._first[: self._kept + 1]))
        self._end(self._at)

    def _end_early(self, silence: int) -> None:
        """End the slice as soon as the silence is sure to be cut, however long it will be."""
        if self.open_start is None:
            return
        length = self._at + 1 - silence
        sure = length > 2 * self._kept and length >= self._min_interval
        if silence > 0 and sure and self._at + 1 - self._length_from >= self._min_length:
            self._end(silence + _lowest(self._first[: self._kept + 1]))

    def _end_silence(self, silence: int) -> None:
        """Sound follows: cut the silence out, or keep it inside the slice."""
        length, kept = self._at - silence, self._kept
        leading = silence == 0 and length > kept
        long = length >= self._min_interval and self._at - self._length_from >= self._min_length
        if not leading and not long:
            return
        if length <= kept:
            end = begin = silence + _lowest(self._first)
        else:
            end = silence + _lowest(self._first[: kept + 1])
            begin = self._at - kept + _lowest(list(self._last))
        if silence == 0:
            self.open_start = None  # nothing before the first sound is kept
        self._end(end)
        self.open_start = self._length_from = begin

    def _end(self, end: int) -> None:
        if self.open_start is not None and self.open_start < end:
            self.final.append((self.open_start, end))
        self.open_start = None


def _lowest(levels: list[float]) -> int:
    """Index of the smallest level, the first of equal ones."""
    return levels.index(min(levels))
