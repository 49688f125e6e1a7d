"""One clip of up to 30 s, transcribed until its text covers its speech.

Of 40 clips of 20 to 30 s with several speakers, Whisper lost about half of the words of five, with
good scores. What it skipped (`holes.py`) is transcribed as a window of its own, and its words are
inserted where they were said.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import ceil

import numpy as np

from tasks.asr import SpeechClip, Transcript, Word
from tasks.asr._whisper.holes import Hole, holes
from tasks.asr._whisper.results import SILENCE_LOGPROB, BeamResult, Language, Window, ordered
from tasks.asr._whisper.windows import LOOP_RATIO, SECONDS
from tasks.base.arrays import RATE
from tasks.speech import Span

ROUNDS = 6  # most further windows of one clip, or for each 30 s of a longer one


@dataclass(slots=True)
class Hearing:
    """A clip and its text so far. `parts`: texts, each with words timed in seconds of the clip.

    `again`: the text comes from a window that the clip shared, and is doubtful: the whole clip is
    transcribed by itself, and the better of the two texts stays. `foreign`: that text is not in the
    clip's language, and does not stay.
    """

    clip: SpeechClip
    language: Language
    parts: list[tuple[BeamResult, tuple[Word, ...]]] = field(default_factory=list)
    aligned: bool = True
    silent: list[Span] = field(default_factory=list)  # transcribed again, without a usable text
    rounds: int = 0
    again: bool = False
    foreign: bool = False

    @property
    def seconds(self) -> float:
        return len(self.clip.samples) / RATE

    @property
    def words(self) -> tuple[Word, ...]:
        heard = [word for _, words in self.parts for word in words]
        return ordered(sorted(heard, key=lambda word: (word.start, word.end)), self.seconds)

    def missed(self) -> list[Span]:
        """Spans with speech that no word accounts for and that have not been tried yet."""
        if self.again:
            return [(0.0, self.seconds)]
        most = ROUNDS * ceil(self.seconds / SECONDS)
        if not self.aligned or self.rounds >= most or not self.words:
            return []
        return [
            hole.span
            for hole in self.holes()
            if not any(first <= hole.start and hole.end <= last for first, last in self.silent)
        ]

    def holes(self) -> list[Hole]:
        return holes(self.words, self.clip.speech, self.seconds)

    def _longest_hole(self) -> tuple[float, float]:
        longest = max(self.holes(), key=lambda hole: hole.speech, default=Hole(0.0, 0.0, 0.0))
        return longest.start, longest.speech

    def cut(self, span: Span) -> SpeechClip:
        """The samples of a span as a clip of its own."""
        start, end = (round(edge * RATE) for edge in span)
        return SpeechClip(np.ascontiguousarray(self.clip.samples[start:end]))

    def add(self, span: Span, window: Window) -> None:
        """Insert the words of a window of `span`, if its scores are good enough, in place of a word
        that was stretched over it."""
        if self.again:
            self._choose(window)
            return
        heard, words = window.heard, window.words
        doubtful = heard.avg_logprob < SILENCE_LOGPROB or heard.ratio > LOOP_RATIO
        if not words or heard.silent or doubtful:
            self.silent.append(span)
            return
        moved = tuple(replace(w, start=w.start + span[0], end=w.end + span[0]) for w in words)
        others = [(part, _outside(span, part_words)) for part, part_words in self.parts]
        before, after = (sum(len(left) for _, left in parts) for parts in (self.parts, others))
        if len(words) <= before - after:  # the stretched word again, or less
            self.silent.append(span)
            return
        self.parts = [*others, (heard, moved)]

    def _choose(self, window: Window) -> None:
        """Take the window of the whole clip, unless the previous text covers as much of the speech
        with better scores."""
        self.again = False
        alone = begun(self.clip, window)
        before, after = (_left_out(hearing) for hearing in (self, alone))
        surer = window.heard.avg_logprob >= self.parts[0][0].avg_logprob
        if self.foreign or not self.aligned or after < before or (after == before and surer):
            self.parts, self.aligned = alone.parts, alone.aligned

    def transcript(self, with_words: bool) -> Transcript:
        """All parts as one. Log-probability: mean over tokens; compression: the worst part's."""
        first = self.parts[0][0]
        heard = [part for part, _ in self.parts]
        text = first.text
        if len(heard) > 1:
            text = " ".join("".join(word.word for word in self.words).split())
        words = self.words
        weights = [len(part.tokens) + 1 for part in heard]
        return Transcript(
            text="" if first.silent else text,
            language=self.language.code,
            language_probability=self.language.probability,
            avg_logprob=float(np.average([part.avg_logprob for part in heard], weights=weights)),
            no_speech_probability=first.no_speech,
            compression_ratio=max(part.ratio for part in heard),
            words=(words if self.aligned else None) if with_words else None,
            text_end=(words[-1].end if words else 0.0) if self.aligned else None,
            hole=self._longest_hole() if self.aligned else None,
            detected_language=self.language.detected,
            detected_probability=self.language.detected_probability,
        )


def _outside(span: Span, words: tuple[Word, ...]) -> tuple[Word, ...]:
    """The words but for those that lie in a span."""
    return tuple(w for w in words if not (span[0] <= w.start < w.end <= span[1]))


def begun(clip: SpeechClip, window: Window) -> Hearing:
    """A clip after its first window."""
    words = window.words
    return Hearing(clip, window.language, [(window.heard, words or ())], words is not None)


def _left_out(hearing: Hearing) -> float:
    """Speech without words, s; for an empty text, more than the clip has."""
    if not hearing.aligned:
        return 0.0
    if not hearing.words:
        return hearing.seconds + 1.0
    return sum(hole.speech for hole in hearing.holes())
