"""Short overlapping windows as Applio cuts them, for voice conversion.

`automatic` cuts pauses out of the recording (`_slicer.py`) and each slice into windows of
`window_seconds`, `overlap_seconds` of which the next one has as well; when no more than a window
and an overlap is left, that is the last one, of whatever length. `simple` cuts the whole recording
into such windows; Applio drops the tail that fills none, here it is kept unless `drop_tail` says
so. Pauses are `non_speech`; what windows share, the ledger counts as overlap.

It works at the recording's own rate, Applio after resampling to 32, 40 or 48 kHz and perhaps a
high-pass: frames are defined in ms, so the cuts are the same to a frame or so. Held in memory: the
window at hand and a pause of up to twice `max_sil_kept_ms`, whatever the length of the recording;
for silence at the beginning, as much of it as `cutting.py` keeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from tasks.audio.channels import mean
from tasks.recording import Segment
from tasks.segmenters import Segmenter, Span
from tasks.segmenters._slicer import Levels, Pauses
from tasks.settings import StageSettings

VERSION = 1


class Settings(StageSettings):
    """Which pauses are cut out, and how long windows are."""

    mode: Literal["automatic", "simple"] = "automatic"
    threshold_db: float = Field(-42.0, ge=-120, lt=0, title="RMS below which it is silent, dBFS")
    min_length_ms: int = Field(1500, ge=1, le=60_000, title="Shortest slice before a pause, ms")
    min_interval_ms: int = Field(400, ge=1, le=60_000, title="Shortest pause that is cut, ms")
    hop_ms: int = Field(15, ge=1, le=1000, title="Step of the frames, ms")
    max_sil_kept_ms: int = Field(500, ge=1, le=60_000, title="Most silence kept on a side, ms")
    window_seconds: float = Field(3.0, gt=0, le=600, title="Length of a window, s")
    overlap_seconds: float = Field(0.3, ge=0, le=300, title="What two windows share, s")
    drop_tail: bool = Field(False, title="simple: leave out what fills no window, as Applio does")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.min_length_ms >= self.min_interval_ms >= self.hop_ms <= self.max_sil_kept_ms:
            raise ValueError("it takes min_length_ms >= min_interval_ms >= hop_ms <= max_sil_kept")
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
        """Where the next one begins."""
        # a hair more: 2.7 s are no whole number of samples in floating point
        return self._start + math.floor(self._step * self._index + 1e-6)

    def until(self, end: int, beyond: float) -> list[Span]:
        """The next windows after which at least `beyond` samples are left before `end`."""
        found = []
        while end - self.next >= self._window + beyond:
            self.covered = self.next + self._window
            found.append(Span(self.next, self.covered))
            self._index += 1
        return found


class Simple:
    """Windows over the whole recording."""

    def __init__(self, settings: Settings, rate: int) -> None:
        self._settings = settings
        self._windows = _Windows(settings, rate, 0)
        self._count = 0

    def push(self, block: NDArray[np.float32]) -> list[Span]:
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


class Automatic:
    """Windows over the slices between pauses."""

    def __init__(self, settings: Settings, rate: int) -> None:
        self._settings, self._rate = settings, rate
        self._hop = hop = max(round(rate * settings.hop_ms / 1000), 1)
        interval = rate * settings.min_interval_ms / 1000
        self._levels = Levels(hop, max(min(round(interval), 4 * hop), 1))
        self._pauses = Pauses(
            10 ** (settings.threshold_db / 20),
            round(rate * settings.min_length_ms / 1000 / hop),
            round(interval / hop),
            max(round(rate * settings.max_sil_kept_ms / 1000 / hop), 1),
        )
        self._beyond = settings.overlap_seconds * rate
        self._count = 0
        self._done = 0  # samples that utterances and pauses cover
        self._windows: _Windows | None = None  # of the open slice
        self._out: list[Span] = []

    def push(self, block: NDArray[np.float32]) -> list[Span]:
        self._count += len(block)
        self._advance(self._levels.push(mean(block)))
        return self._take()

    def finish(self) -> list[Span]:
        self._advance(self._levels.finish())
        self._pauses.finish()
        self._slices()
        self._pause(self._count)
        return self._take()

    @property
    def needed_from(self) -> int:
        at = self._pauses.low * self._hop if self._windows is None else self._windows.next
        return min(at, self._count)

    def _advance(self, levels: list[float]) -> None:
        for level in levels:
            self._pauses.push(level)
            self._slices()
        # As silence at the beginning may prove to be no slice, nothing of it is handed out.
        if self._pauses.begin is not None and self._pauses.reached > 0:
            windows = self._open(self._pauses.begin)
            self._whole(windows, min(self._pauses.reached * self._hop, self._count))

    def _slices(self) -> None:
        """Hand out the rest of the slices that have ended."""
        for begin, end in self._pauses.ended:
            windows = self._open(begin)
            stop = min(end * self._hop, self._count)
            self._whole(windows, stop)
            if windows.next < stop:  # the last frame may hold no sample
                self._out.append(Span(windows.next, stop))
            self._done, self._windows = stop, None
        self._pauses.ended.clear()

    def _open(self, begin: int) -> _Windows:
        if self._windows is None:
            start = begin * self._hop
            self._pause(start)
            self._windows = _Windows(self._settings, self._rate, start)
        return self._windows

    def _whole(self, windows: _Windows, end: int) -> None:
        """Windows after which more than an overlap is left before `end`."""
        self._out += windows.until(end, math.floor(self._beyond) + 1)

    def _pause(self, end: int) -> None:
        if end > self._done:
            self._out.append(Span(self._done, end, "non_speech"))
            self._done = end

    def _take(self) -> list[Span]:
        out, self._out = self._out, []
        return out


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Segmenter:
    if settings.mode == "simple":
        return Simple(settings, rate)
    return Automatic(settings, rate)
