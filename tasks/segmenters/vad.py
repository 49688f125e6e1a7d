"""Utterances by voice detection: Silero v6, then pauses, merging and cutting.

Speech is found by hysteresis over 32 ms windows. Neighbouring speech is joined while the whole
stays within `max_seconds` and the pauses are short. Speech without such a pause for longer is cut
at its longest dip, or where speech is least certain. Everything is done in one pass with a
look-back of about `max_seconds` + `min_seconds`, whatever the length of the recording.

`merge: emilia` follows the rules of Emilia-Pipe instead, see `_emilia.py`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from tasks.recording import Segment
from tasks.segmenters import Kind, Segmenter, Span
from tasks.segmenters._emilia import Emilia
from tasks.segmenters._silero import RATE, SHA256, WINDOW, Probabilities
from tasks.settings import StageSettings

VERSION = 1


class Speech(StageSettings):
    """Where speech begins and ends, and how long utterances are."""

    min_seconds: float = Field(3.0, ge=0, title="Shortest utterance, s")
    max_seconds: float = Field(30.0, ge=1, le=3600, title="Longest utterance, s")
    max_gap_seconds: float = Field(2.0, ge=0.1, le=60, title="Longest pause inside an utterance, s")
    threshold: float = Field(0.5, gt=0, lt=1, title="Probability at which speech begins")
    neg_threshold: float = Field(0.35, gt=0, lt=1, title="Probability below which it ends")
    min_silence_ms: int = Field(100, ge=0, le=5000, title="Shortest pause that ends speech, ms")
    min_speech_ms: int = Field(250, ge=0, le=5000, title="Shorter bursts are not speech, ms")
    speech_pad_ms: int = Field(100, ge=0, le=1000, title="Audio kept around an utterance, ms")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.neg_threshold > self.threshold:
            raise ValueError("neg_threshold must not be above threshold")
        if 2 * self.min_seconds + self.speech_pad_ms / 250 > self.max_seconds:
            raise ValueError("max_seconds must be more than twice min_seconds, else nothing fits")
        return self


class Settings(Speech):
    """The same, and by which rules speech is joined and cut."""

    merge: Literal["default", "emilia"] = Field(
        "default",
        description="emilia: the rules of Emilia-Pipe on the source's speaker turns; speech_pad_ms "
        "is 30 then unless it is given, as in Silero.",
    )

    @model_validator(mode="before")
    @classmethod
    def _pad_of_silero(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("merge") == "emilia":
            return {"speech_pad_ms": 30, **data}
        return data


def identity(settings: Speech) -> str:
    """The weights, for the recipe."""
    return SHA256[:16]


def uses_speakers(settings: Settings) -> bool:
    """Whether the speakers of the given segments can move a cut."""
    return settings.merge == "emilia"


class Vad:
    """Speech of one recording. Positions inside are windows; spans are native samples."""

    def __init__(self, settings: Speech, rate: int) -> None:
        self._settings, self._rate = settings, rate
        self._model = Probabilities(rate)
        self._pad = settings.speech_pad_ms * RATE // 1000  # samples at 16 kHz
        self._longest = (int(settings.max_seconds * RATE) - 2 * self._pad) // WINDOW
        self._shortest = max(-(-int(settings.min_seconds * RATE) // WINDOW), 1)
        self._gap = int(settings.max_gap_seconds * RATE) // WINDOW
        self._count = 0  # native samples pushed
        self._done = 0  # native samples handed out as spans
        self._probs: list[float] = []  # of the windows from `_first` on
        self._first = 0
        self._at = 0  # windows seen
        self._start: int | None = None  # where the open speech began
        self._quiet: int | None = None  # where it may have ended
        self._joined: tuple[int, int] | None = None  # utterance that may still grow
        self._out: list[Span] = []

    def push(self, block: NDArray[np.float32]) -> list[Span]:
        self._count += len(block)
        return self._advance(self._model.push(block))

    def finish(self) -> list[Span]:
        self._advance_windows(self._model.finish())
        if self._start is not None:
            self._piece(self._start, self._at if self._quiet is None else self._quiet)
        self._close(None)
        self._cover(self._count, "non_speech", None)
        return self._take()

    @property
    def needed_from(self) -> int:
        """Non-speech needs no samples, so this runs ahead of the spans in a long silence."""
        return max(self._done, self._native(self._earliest() * WINDOW - self._pad))

    def _earliest(self) -> int:
        if self._joined is not None:
            return self._joined[0]
        return self._at if self._start is None else self._start

    def _advance(self, probs: NDArray[np.float32]) -> list[Span]:
        self._advance_windows(probs)
        keep = self._earliest()
        del self._probs[: keep - self._first]
        self._first = keep
        return self._take()

    def _advance_windows(self, probs: NDArray[np.float32]) -> None:
        for value in probs.tolist():
            self._probs.append(value)
            self._window(value)
            self._at += 1

    def _window(self, value: float) -> None:
        """Silero's own hysteresis: speech ends where it was quiet for `min_silence_ms`."""
        at, settings = self._at, self._settings
        if value >= settings.threshold:
            self._quiet = None
            if self._start is None:
                self._start = at
        elif value < settings.neg_threshold and self._start is not None:
            if self._quiet is None:
                self._quiet = at
            if (at - self._quiet) * WINDOW * 1000 >= settings.min_silence_ms * RATE:
                start, end = self._start, self._quiet
                self._start = self._quiet = None
                self._piece(start, end)
        if self._start is not None and at - self._start >= self._longest + self._shortest:
            self._start = self._cut_down(self._start, at, open_end=True)
        if self._start is None and self._joined and at - self._joined[1] >= self._gap:
            self._close(None)

    def _piece(self, start: int, end: int) -> None:
        """Join a stretch of speech to the utterance before it, or begin a new one."""
        if (end - start) * WINDOW * 1000 < self._settings.min_speech_ms * RATE:
            return
        start = self._cut_down(start, end, open_end=False)
        if self._joined is not None:
            if self._near(start) and end - self._joined[0] <= self._longest:
                self._joined = (self._joined[0], end)
                return
            self._close(start)
        self._joined = (start, end)

    def _near(self, start: int) -> bool:
        return self._joined is not None and start - self._joined[1] < self._gap

    def _cut_down(self, start: int, end: int, open_end: bool) -> int:
        """Cut utterances off a stretch until the rest is short enough; where the rest begins."""
        while True:
            begin = start
            if self._joined is not None:
                # A scrap that is too short to stand alone goes along with what follows it.
                scrap = self._joined[1] - self._joined[0] < self._shortest
                if self._near(start) and scrap:
                    begin = self._joined[0]
            if end - begin <= self._longest + (self._shortest if open_end else 0):
                return start
            if begin == start:
                self._close(start)
            low = max(begin + self._shortest, start + 1)
            high = max(min(begin + self._longest, end - self._shortest), low)
            stop, start = self._pause(low, high)
            self._joined = (begin, stop)
            self._close(start)

    def _pause(self, low: int, high: int) -> tuple[int, int]:
        """The longest dip in windows [low, high), else the least certain one: (end, next start)."""
        probs = np.array(self._probs[low - self._first : high - self._first + 1])
        quiet = np.flatnonzero(np.diff(np.r_[0, probs < self._settings.neg_threshold, 0]))
        if len(quiet):
            dips = quiet.reshape(-1, 2)
            # the last of the longest ones, and of it no more than fits
            best = dips[::-1][np.argmax((dips[:, 1] - dips[:, 0])[::-1])]
            return low + int(best[0]), low + int(best[1])
        smooth = np.convolve(np.pad(probs, 1, mode="edge"), np.ones(3) / 3, mode="valid")
        where = low + int(np.argmin(smooth))
        return where, where

    def _close(self, following: int | None) -> None:
        """Settle the utterance at hand; `following` is where speech goes on, if it is known."""
        if self._joined is None:
            return
        start, end = self._joined[0] * WINDOW, self._joined[1] * WINDOW
        self._joined = None
        last = end + self._pad
        if following is not None:  # two pads that meet share the pause
            last = min(last, (end + following * WINDOW) // 2)
        self._cover(self._native(start - self._pad), "non_speech", None)
        stop = max(self._native(last), self._done)
        short = stop - self._done < self._settings.min_seconds * self._rate
        if short:
            self._cover(stop, "unsegmented", "below_min_seconds")
        else:
            self._cover(stop, "utterance", None)

    def _cover(self, end: int, kind: Kind, reason: str | None) -> None:
        """One span from where the last one ended to `end`, if that is any."""
        if end > self._done:
            self._out.append(Span(self._done, end, kind, reason=reason))
            self._done = end

    def _native(self, position: int) -> int:
        """A position at 16 kHz as a sample of the recording."""
        return min(max(position * self._rate // RATE, 0), self._count)

    def _take(self) -> list[Span]:
        out, self._out = self._out, []
        return out


def start(settings: Speech, rate: int, given: Sequence[Segment]) -> Segmenter:
    if isinstance(settings, Settings) and settings.merge == "emilia":
        return Emilia(settings, rate, given)
    return Vad(settings, rate)
