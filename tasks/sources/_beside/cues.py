"""Cues: what readers of transcripts return, and what becomes the segments of a recording."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from ...base.errors import ItemError
from ...recording import Segment, TimedWord
from ...recording.locator import Channels
from ...storage import bounds
from .._text_encoding import BAD_TEXT
from . import spoken

MOST = 100_000  # cues of a recording
OVERLAP = 0.05  # s by which cues may overlap unnoticed: times are rounded


class NoTranscript(Exception):
    """A file whose kind has other uses, too, is not a transcript."""


@dataclass(frozen=True, slots=True)
class Cue:
    """A text with its times in s, as it is written; `end` None: to the end of the recording."""

    start: float
    end: float | None
    text: str
    speaker: str | None = None
    words: tuple[TimedWord, ...] | None = None
    channels: Channels | None = None


@dataclass(slots=True)
class Cues:
    """The cues of a file, and how many were left out, by fault."""

    cues: list[Cue] = field(default_factory=list)
    wrong: Counter[str] = field(default_factory=Counter)

    def add(self, cue: Cue) -> None:
        if len(self.cues) >= MOST:
            raise ItemError(BAD_TEXT, f"it has more than {MOST:,} cues")
        if not math.isfinite(cue.start) or cue.start < 0:
            self.wrong["without a time"] += 1
        elif cue.end is not None and not cue.start < cue.end < math.inf:
            self.wrong["without a length"] += 1
        else:
            self.cues.append(cue)

    def segments(self) -> tuple[Segment, ...]:
        """One segment for each cue with speech, in order of time; counts the others."""
        names = spoken.recurring(cue.text for cue in self.cues)
        segments: dict[Segment, None] = {}
        last: dict[Channels | None, float] = {}
        for cue in sorted(self.cues, key=lambda cue: (cue.start, cue.end or math.inf)):
            says = spoken.said(cue.text, names)
            if not cue.text.strip():
                self.wrong["without a text"] += 1
            elif not says.text:
                self.wrong["of sounds only"] += 1
            elif says.unheard:
                self.wrong["marked as not understood"] += 1
            elif too_long := bounds.too_long(len(says.text)):
                raise ItemError(BAD_TEXT, too_long)
            else:
                speaker = cue.speaker or says.speaker
                timed = cue.words, cue.channels
                segment = Segment(cue.start, cue.end, None, says.text, speaker, None, *timed)
                if segment in segments:
                    self.wrong["given twice"] += 1
                    continue
                before = last.get(cue.channels, 0.0)
                self.wrong["overlapping others, kept"] += cue.start < before - OVERLAP
                last[cue.channels] = max(before, math.inf if cue.end is None else cue.end)
                segments[segment] = None
        return tuple(segments)


def joined(words: Iterable[TimedWord]) -> str:
    """The words as one text; punctuation joins the word before it."""
    parts: list[str] = []
    for word in words:
        parts += [" ", word.word] if any(map(str.isalnum, word.word)) else [word.word]
    return "".join(parts).strip()
