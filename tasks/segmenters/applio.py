"""Short overlapping windows as Applio cuts them, for voice conversion.

`automatic` removes pauses (`_slicer.py`) and cuts each slice into windows of `window_seconds`, each
sharing `overlap_seconds` with the next. When no more than a window and an overlap is left, that is
the last window, whatever its length. `simple` cuts the whole recording into such windows; the tail
that fills none is kept, unless `drop_tail` asks for Applio's behaviour. Pauses are `non_speech`;
the ledger counts what windows share as overlap.

As in Applio, pauses are sought at `sample_rate` and behind a high-pass (`Ear`): hum and
offset hide pauses, and the quietest frame of a pause, where it is cut, depends on the rate. A
recording of up to `min_length_ms` is left whole. Each cut is the nearest sample of the recording.
Memory: one window and a pause of up to twice `max_sil_kept_ms`, whatever the length of the
recording; of silence at the start, as much as `tasks/stages/cutting.py` keeps.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Literal, Self

from pydantic import Field, model_validator

from tasks.audio.channels import Heard
from tasks.base.arrays import Float32s
from tasks.recording import Segment
from tasks.segmenters import Segmenter, Span
from tasks.segmenters._slicer import Ear, FrameRms, Slicer
from tasks.settings import StageSettings

VERSION = 2
LISTENS = True


class Settings(StageSettings):
    """Which pauses are removed, and how long windows are."""

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
        """Where the next one begins."""
        # slightly more, as 2.7 s are not a whole number of samples in floating point
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
    """Windows over the whole recording."""

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


class Automatic:
    """Windows over the slices between pauses. Until `_take`, places are at the ear's rate."""

    def __init__(self, settings: Settings, rate: int) -> None:
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
        self._done = 0  # samples that utterances and pauses cover
        self._windows: _Windows | None = None  # of the open slice
        self._out: list[Span] = []

    def push(self, block: Float32s) -> list[Span]:
        self._slice(self._rms.push(self._ear.push(self._mono.push(block))))
        return [] if self._is_short else self._take()

    def finish(self) -> list[Span]:
        self._slice(self._rms.push(self._ear.push(self._mono.finish())))
        self._slice(self._rms.push(self._ear.finish()))
        if self._is_short:
            self._out, self._done = [], 0
            self._windows = _Windows(self._settings, self._ear.rate, 0)
            self._cut_rest(self._windows, self._ear.heard)
            return self._take()
        self._slice(self._rms.finish())
        self._slicer.finish()
        self._cut_slices()
        self._pause(self._ear.heard)
        return self._take()

    @property
    def needed_from(self) -> int:
        if self._is_short:
            return 0
        pending = (
            self._slicer.earliest_pending * self._hop
            if self._windows is None
            else self._windows.next
        )
        return self._ear.place(pending)

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
        """Cut the rest of each final slice into windows."""
        for begin, end in self._slicer.final:
            stop = min(end * self._hop, self._ear.heard)
            self._cut_rest(self._open(begin), stop)
            self._done, self._windows = stop, None
        self._slicer.final.clear()

    def _cut_rest(self, windows: _Windows, stop: int) -> None:
        self._cut_whole(windows, stop)
        if windows.next < stop:  # the last frame may hold no sample
            self._out.append(Span(windows.next, stop))

    def _open(self, begin: int) -> _Windows:
        if self._windows is None:
            start = begin * self._hop
            self._pause(start)
            self._windows = _Windows(self._settings, self._ear.rate, start)
        return self._windows

    def _cut_whole(self, windows: _Windows, end: int) -> None:
        """Cut full windows while more than an overlap remains before `end`."""
        self._out += windows.until(end, math.floor(self._beyond) + 1)

    def _pause(self, end: int) -> None:
        if end > self._done:
            self._out.append(Span(self._done, end, "non_speech"))
            self._done = end

    def _take(self) -> list[Span]:
        """The spans so far, in samples of the recording."""
        out, self._out = self._out, []
        place = self._ear.place
        placed = (replace(span, start=place(span.start), end=place(span.end)) for span in out)
        return [span for span in placed if span.start < span.end]


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Segmenter:
    if settings.mode == "simple":
        return Simple(settings, rate)
    return Automatic(settings, rate)
