"""Utterances by voice detection: Silero v6, level, then pauses: joined, parted, cut.

Where speech is, `_voice.py` tells; `_joining.py` makes utterances of it. A stretch without a pause
for longer than `max_seconds` is cut at its longest dip, or where speech is least certain.
Everything is done in one pass with a look-back of about `max_seconds` + 20 s, whatever the length
of the recording.

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
from tasks.segmenters._edges import levels
from tasks.segmenters._emilia import Emilia
from tasks.segmenters._joining import Joining, Lengths
from tasks.segmenters._voice import Voice
from tasks.settings import StageSettings
from tasks.speech.silero import RATE, SHA256, WINDOW, Probabilities

VERSION = 2
# What Emilia-Pipe and Silero use; another value must be given.
EMILIA = {
    "min_seconds": 3.0, "max_gap_seconds": 2.0, "min_speech_ms": 250, "speech_pad_ms": 30,
}  # fmt: skip


class Speech(StageSettings):
    """Where speech begins and ends, and how long utterances are."""

    min_seconds: float = Field(0.3, ge=0, title="Shortest utterance, s")
    target_seconds: float = Field(
        10.0, ge=0.5, le=3600, title="Length to aim for, s",
        description="Neighbouring speech is joined up to about this length, and parted at the "
        "longest pause. Speech without a pause may be longer, up to max_seconds.",
    )  # fmt: skip
    max_seconds: float = Field(30.0, ge=1, le=3600, title="Longest utterance, s")
    max_gap_seconds: float = Field(1.0, ge=0.1, le=60, title="Longest pause inside an utterance, s")
    threshold: float = Field(0.5, gt=0, lt=1, title="Probability at which speech begins")
    neg_threshold: float = Field(0.35, gt=0, lt=1, title="Probability below which it ends")
    min_silence_ms: int = Field(100, ge=0, le=5000, title="Shortest pause that ends speech, ms")
    min_speech_ms: int = Field(200, ge=0, le=5000, title="Shorter bursts are not speech, ms")
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
        description="emilia: the rules of Emilia-Pipe on the source's speaker turns, which know no "
        "target_seconds; min_seconds is 3, max_gap_seconds 2, min_speech_ms 250 and speech_pad_ms "
        "30 then, unless they are given.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_emilia(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("merge") == "emilia":
            return {**EMILIA, **data}
        return data


def identity(settings: Speech) -> str:
    """The weights, for the recipe."""
    return SHA256[:16]


def uses_speakers(settings: Settings) -> bool:
    """Whether the speakers of the given segments can move a cut."""
    return settings.merge == "emilia"


class Vad:
    """Utterances of one recording. Positions inside are windows; spans are native samples."""

    def __init__(self, settings: Speech, rate: int) -> None:
        self._settings, self._rate = settings, rate
        self._model = Probabilities(rate)
        self._voice = Voice(settings)
        self._pad = settings.speech_pad_ms * RATE // 1000  # samples at 16 kHz
        longest = (int(settings.max_seconds * RATE) - 2 * self._pad) // WINDOW
        lengths = Lengths(
            shortest=max(-(-int(settings.min_seconds * RATE) // WINDOW), 1),
            target=max(min(int(settings.target_seconds * RATE) // WINDOW, longest), 1),
            longest=longest,
            gap=int(settings.max_gap_seconds * RATE) // WINDOW,
        )
        self._joining = Joining(lengths, self._dip)
        self._count = 0  # native samples pushed
        self._done = 0  # native samples handed out as spans
        self._probs: list[float] = []  # of the windows from `_first` on
        self._first = 0
        self._out: list[Span] = []

    def push(self, block: NDArray[np.float32]) -> list[Span]:
        self._count += len(block)
        self._advance(self._model.push(block))
        keep = self._earliest()
        del self._probs[: keep - self._first]
        self._first = keep
        return self._take()

    def finish(self) -> list[Span]:
        self._advance(self._model.finish())
        self._voice.finish()
        self._join()
        self._joining.finish()
        self._settle()
        self._cover(self._count, "non_speech", None)
        return self._take()

    @property
    def needed_from(self) -> int:
        """Non-speech needs no samples, so this runs ahead of the spans in a long silence."""
        return max(self._done, self._native(self._earliest() * WINDOW - self._pad))

    def _earliest(self) -> int:
        start = self._joining.start
        return self._voice.low if start is None else start

    def _advance(self, probs: NDArray[np.float32]) -> None:
        if not len(probs):
            return
        windows = self._model.windows
        for value, level, samples in zip(
            probs.tolist(), levels(windows).tolist(), windows, strict=True
        ):
            self._probs.append(value)
            self._voice.push(value, level, samples)
            self._join()

    def _join(self) -> None:
        """Tell of what the last window settled."""
        voice, joining = self._voice, self._joining
        for start, end in voice.ended:
            joining.ends(start, end)
        voice.ended.clear()
        if voice.begun is not None:
            joining.reaches(voice.begun, voice.reached)
        else:
            joining.silent(voice.low)
        self._settle()

    def _dip(self, low: int, high: int) -> tuple[int, int]:
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

    def _settle(self) -> None:
        """Spans of the utterances that are settled; two pads that meet share the pause."""
        for first, last, following in self._joining.pieces:
            start, end = first * WINDOW, last * WINDOW
            stop = end + self._pad
            if following is not None:
                stop = min(stop, (end + following * WINDOW) // 2)
            self._cover(self._native(start - self._pad), "non_speech", None)
            stop = max(self._native(stop), self._done)
            if stop - self._done < self._settings.min_seconds * self._rate:
                self._cover(stop, "unsegmented", "below_min_seconds")
            else:
                self._cover(stop, "utterance", None)
        self._joining.pieces.clear()

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
