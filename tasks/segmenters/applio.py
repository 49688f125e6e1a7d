"""Short overlapping windows as Applio cuts them, for voice conversion.

`automatic` removes pauses (`Slicer`) and cuts each slice into windows of `window_seconds`, each
sharing `overlap_seconds` with the next. When no more than a window and an overlap is left, that is
the last window, whatever its length. `simple` cuts the whole recording into such windows; the tail
that fills none is kept, unless `drop_tail` asks for Applio's behaviour. Pauses are `non_speech`;
the ledger counts what windows share as overlap.

As in Applio, pauses are sought at `sample_rate` and after a high-pass (`Ear`): hum and offset hide
pauses, and the quietest frame of a pause, where it is cut, depends on the rate. A recording of up
to `min_length_ms` is left whole. Each cut is the nearest sample of the recording. Memory: one
window and a pause of up to twice `max_sil_kept_ms`, whatever the length of the recording; of
silence at the start, as much as `tasks/stages/cutting.py` keeps.
"""

import math
from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Literal, Self

import numpy as np
from pydantic import Field, model_validator

from ..audio.channels import Heard
from ..base.arrays import Float32s, Float64s
from ..recording import Segment
from ..settings import StageSettings
from ..speech.silero import MonoStream
from . import Cover, Segmenter, Span

VERSION = 2
LISTENS = True


class Settings(StageSettings):
    mode: Literal["automatic", "simple"] = Field(
        "automatic",
        description="automatic: remove pauses, then cut windows; simple: cut windows throughout.",
    )
    threshold_db: float = Field(
        -42.0, ge=-120, lt=0, description="Frames of lower RMS are silent, dBFS."
    )
    min_length_ms: int = Field(
        1500, ge=1, le=60_000, description="Shortest slice before a pause, ms."
    )
    min_interval_ms: int = Field(
        400, ge=1, le=60_000, description="Shortest pause that is cut, ms."
    )
    hop_ms: int = Field(15, ge=1, le=1000, description="Step between frames, ms.")
    max_sil_kept_ms: int = Field(
        500, ge=1, le=60_000, description="Most silence kept on each side of a slice, ms."
    )
    sample_rate: int | None = Field(
        40_000,
        ge=8_000,
        le=192_000,
        description="automatic: rate at which pauses are searched for, Hz, as Applio's; null: the "
        "recording's own.",
    )
    highpass: bool = Field(
        True,
        description="automatic: search for pauses without what lies below 48 Hz, as Applio does.",
    )
    window_seconds: float = Field(3.0, gt=0, le=600, description="Length of a window, s.")
    overlap_seconds: float = Field(
        0.3, ge=0, le=300, description="Overlap of neighbouring windows, s."
    )
    drop_tail: bool = Field(
        False, description="simple: drop the tail that fills no window, as Applio does."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.min_length_ms >= self.min_interval_ms >= self.hop_ms <= self.max_sil_kept_ms:
            raise ValueError(
                "needs min_length_ms >= min_interval_ms >= hop_ms, and max_sil_kept >= hop_ms"
            )
        if self.overlap_seconds > self.window_seconds / 2:
            raise ValueError("overlap_seconds must not be more than half of window_seconds")
        return self


class _Windows:
    """Windows of one stretch of samples that begins at `start`."""

    def __init__(self, settings: Settings, rate: int, start: int) -> None:
        self._start = start
        self._step = (settings.window_seconds - settings.overlap_seconds) * rate
        self._window = max(math.floor(settings.window_seconds * rate), 1)
        self._index = 0
        self.covered = start  # end of the windows so far

    @property
    def next(self) -> int:
        # slightly more: in floating point, 2.7 s are not a whole number of samples
        return self._start + math.floor(self._step * self._index + 1e-6)

    def until(self, end: int, beyond: float) -> list[Span]:
        """Further windows, as long as at least `beyond` samples remain between one and `end`."""
        spans = []
        while end - self.next >= self._window + beyond:
            self.covered = self.next + self._window
            spans.append(Span(self.next, self.covered))
            self._index += 1
        return spans


class Simple:
    def __init__(self, settings: Settings, rate: int) -> None:
        self._settings = settings
        self._windows = _Windows(settings, rate, 0)
        self._count = 0

    def push(self, block: Float32s) -> list[Span]:
        self._count += len(block)
        return self._windows.until(self._count, 0)

    def finish(self) -> list[Span]:
        windows = self._windows
        if windows.covered >= self._count:
            return []
        if self._settings.drop_tail:
            return [Span(windows.covered, self._count, "unsegmented", reason="tail")]
        return [Span(windows.next, self._count)]

    @property
    def needed_from(self) -> int:
        return min(self._windows.next, self._count)


class Automatic(Cover):
    """Windows over the slices between pauses. Until `_take`, places are at the ear's rate."""

    def __init__(self, settings: Settings, rate: int) -> None:
        super().__init__()
        self._settings = settings
        self._mono = Heard()
        self._ear = Ear(rate, settings.sample_rate or rate, settings.highpass)
        heard = self._ear.rate
        self._hop = hop = max(round(heard * settings.hop_ms / 1000), 1)
        interval = heard * settings.min_interval_ms / 1000
        self._rms = FrameRms(hop, max(min(round(interval), 4 * hop), 1))
        self._least = round(heard * settings.min_length_ms / 1000 / hop)
        self._slicer = Slicer(
            10 ** (settings.threshold_db / 20),
            self._least,
            round(interval / hop),
            max(round(heard * settings.max_sil_kept_ms / 1000 / hop), 1),
        )
        self._beyond = settings.overlap_seconds * heard
        self._windows: _Windows | None = None  # of the open slice

    def push(self, block: Float32s) -> list[Span]:
        self._slice(self._rms.push(self._ear.push(self._mono.push(block))))
        return [] if self._is_short else self._take()

    def finish(self) -> list[Span]:
        self._slice(self._rms.push(self._ear.push(self._mono.finish())))
        self._slice(self._rms.push(self._ear.finish()))
        if self._is_short:
            self.spans, self.done = [], 0
            self._windows = _Windows(self._settings, self._ear.rate, 0)
            self._cut_rest(self._windows, self._ear.heard)
            return self._take()
        self._slice(self._rms.finish())
        self._slicer.finish()
        self._cut_slices()
        self.cover(self._ear.heard, "non_speech")
        return self._take()

    @property
    def needed_from(self) -> int:
        if self._is_short:
            return 0
        windows, pending = self._windows, self._slicer.earliest_pending * self._hop
        return self._ear.place(pending if windows is None else windows.next)

    @property
    def _is_short(self) -> bool:
        """Whether the audio so far is too short to be cut at all."""
        return -(-self._ear.heard // self._hop) <= self._least

    def _slice(self, levels: list[float]) -> None:
        slicer = self._slicer
        for level in levels:
            slicer.push(level)
            self._cut_slices()
        # Silence at the start (`open_until` 0) may turn out to be no slice: do not cut it yet.
        if slicer.open_start is not None and slicer.open_until > 0:
            windows = self._open(slicer.open_start)
            self._cut_whole(windows, min(slicer.open_until * self._hop, self._ear.heard))

    def _cut_slices(self) -> None:
        for begin, end in self._slicer.final:
            stop = min(end * self._hop, self._ear.heard)
            self._cut_rest(self._open(begin), stop)
            self.done, self._windows = stop, None
        self._slicer.final.clear()

    def _cut_rest(self, windows: _Windows, stop: int) -> None:
        self._cut_whole(windows, stop)
        if windows.next < stop:  # the last frame may hold no sample
            self.spans.append(Span(windows.next, stop))

    def _open(self, begin: int) -> _Windows:
        if self._windows is None:
            self.cover(begin * self._hop, "non_speech")
            self._windows = _Windows(self._settings, self._ear.rate, begin * self._hop)
        return self._windows

    def _cut_whole(self, windows: _Windows, end: int) -> None:
        self.spans += windows.until(end, math.floor(self._beyond) + 1)

    def _take(self) -> list[Span]:
        """The spans so far, in samples of the recording."""
        place, out = self._ear.place, self.take()
        placed = (replace(span, start=place(span.start), end=place(span.end)) for span in out)
        return [span for span in placed if span.start < span.end]


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Segmenter:
    if settings.mode == "simple":
        return Simple(settings, rate)
    return Automatic(settings, rate)


# Slice a recording at silence: the algorithm "slicer2" of audio-slicer, in Applio's form, which
# works at one rate, with a high-pass at 48 Hz (`Ear`). Slices are (begin, end) in frames. Frame i
# is `win` samples around sample i * hop, zeros beyond the ends; it is silent when its RMS is below
# the threshold.
#
# A run of silent frames is a pause when it has `min_interval` frames and the slice before it
# `min_length`. A pause of up to `max_kept` frames splits at its quietest frame and loses nothing;
# a longer one loses what lies between the quietest of its first `max_kept` frames and the
# quietest of its last. (The published code treats up to twice `max_kept` separately, with the
# same result.) Silence at the start longer than `max_kept` is lost up to the quietest of its last
# frames, and silence at the end from the quietest of its first.

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
            begin = self._at - kept + _lowest(self._last)
        if silence == 0:
            self.open_start = None  # nothing before the first sound is kept
        self._end(end)
        self.open_start = self._length_from = begin

    def _end(self, end: int) -> None:
        if self.open_start is not None and self.open_start < end:
            self.final.append((self.open_start, end))
        self.open_start = None


def _lowest(levels: Iterable[float]) -> int:
    """Index of the smallest level, the first of equal ones."""
    return int(np.argmin([*levels]))
