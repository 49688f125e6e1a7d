"""One clip of up to 30 s, transcribed until its text covers its speech.

Of 40 clips of 20 to 30 s with several speakers, Whisper lost about half of the words of five, with
good scores. The times of the words (cross-attention) show it in two ways: no word where there is
speech, or one word that is stretched over what was skipped. Such a hole is transcribed as a window
of its own, from pause to pause, because the times of the words beside a hole are wrong, too; if
that brings nothing, the hole alone. The words are inserted where they were said.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from math import ceil
from statistics import median

import numpy as np

from ... import speech
from ...base.arrays import RATE
from ...speech import Span
from .. import SpeechClip, Transcript, Word
from .results import (
    SILENCE_LOGPROB,
    BeamResult,
    Language,
    Window,
    ordered,
)
from .windows import LOOP_RATIO, SECONDS

WIDEST_SECONDS = 25.0  # that are transcribed again for one hole
PAUSE_SECONDS = 0.2  # shortest pause at which a text is parted
EDGE_SECONDS = 0.15  # of speech by which the edge of a word may be wrong
TELLING_SECONDS = 2.0  # least length by which Whisper tells a language
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
    #: What was transcribed again without a usable text: from pause to pause, and alone.
    tried: list[Span] = field(default_factory=list)
    silent: list[Span] = field(default_factory=list)
    rounds: int = 0
    again: bool = False
    foreign: bool = False

    @property
    def seconds(self) -> float:
        return len(self.clip.samples) / RATE

    @property
    def forced_language(self) -> str | None:
        """The language in which missed spans are transcribed; None: the clip's own is detected,
        where a text in its window's language is doubtful and the clip long enough to tell."""
        doubted = self.again and not self.foreign and self.seconds >= TELLING_SECONDS
        stated = self.language.probability is None
        return None if doubted and not stated else self.language.code

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
            hole.span if _covered(hole.span, self.tried) else self._to_pauses(hole)
            for hole in self.holes()
            if not _covered(hole.span, self.silent)
        ]

    def _to_pauses(self, hole: Hole) -> Span:
        """The hole, each of whose edges that lies within speech is moved to the nearest pause that
        parts words from words; alone if that is too long. It never grows to the start of the clip:
        from there, Whisper would skip the same again."""
        pauses = [*_pauses(self.words, self.clip.speech)]
        start, end = hole.span
        if self._within_speech(start):
            start = max((pause for pause in pauses if pause <= start), default=start)
        if self._within_speech(end):
            end = min((pause for pause in pauses if pause >= end), default=self.seconds)
        return (start, end) if end - start <= WIDEST_SECONDS else hole.span

    def _within_speech(self, edge: float) -> bool:
        spans = self.clip.speech
        return any(first + EDGE_SECONDS < edge < last - EDGE_SECONDS for first, last in spans)

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
            self._fail(span)
            return
        moved = tuple(replace(w, start=w.start + span[0], end=w.end + span[0]) for w in words)
        others = [(part, _outside(span, part_words)) for part, part_words in self.parts]
        before, after = (sum(len(left) for _, left in parts) for parts in (self.parts, others))
        if len(words) <= before - after:  # the stretched word again, or less
            self._fail(span)
            return
        self.parts = [*others, (heard, moved)]

    def _fail(self, span: Span) -> None:
        alone = any(hole.span == span for hole in self.holes())
        (self.silent if alone else self.tried).append(span)

    def _choose(self, window: Window) -> None:
        """Take the window of the whole clip, unless the previous text covers as much of the speech
        with better scores."""
        self.again = False
        alone = begun(self.clip, window)
        before, after = (_left_out(hearing) for hearing in (self, alone))
        surer = window.heard.avg_logprob >= self.parts[0][0].avg_logprob
        if self.foreign or not self.aligned or after < before or (after == before and surer):
            self.parts, self.aligned = alone.parts, alone.aligned
            if window.language.probability is not None:
                self.language = window.language

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
    """The words whose middle lies outside a span."""
    return tuple(w for w in words if not span[0] <= (w.start + w.end) / 2 <= span[1])


def _covered(span: Span, others: Sequence[Span]) -> bool:
    return any(first <= span[0] and span[1] <= last for first, last in others)


def _pauses(words: Sequence[Word], spans: Sequence[Span]) -> Iterator[float]:
    """The middle of each pause over which no word is stretched."""
    for (_, before), (after, _) in pairwise(spans):
        middle = (before + after) / 2
        over = (w for w in words if w.start < middle < w.end)
        if after - before >= PAUSE_SECONDS and not any(
            min(speech.within(spans, w.start, middle), speech.within(spans, middle, w.end))
            > EDGE_SECONDS
            for w in over
        ):
            yield middle


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


# Holes: speech of a clip that no word of its text accounts for.
LEAST_SECONDS = 0.8  # of speech in a hole; a word may end up to 0.5 s before its speech
#: After the last word: 29 right clips had up to 0.48 s, and more than this without their last two
#: words, of which a limit of 0.8 s saw 72 %.
LAST_SECONDS = 0.6
LEAD_SECONDS = 0.2  # of audio before speech that has no words
#: Speech that a word usually takes, s: a start, and more for each character, or for each figure or
#: letter that is said one by one.
WORD_SECONDS, CHARACTER_SECONDS, SPELLED_SECONDS = 0.2, 0.03, 0.3
#: Slowest pace of a clip, in times that speech: if half of the words take more, they are stretched.
SLOWEST = 2.5
#: A word is stretched if it takes longer than its like in the clip this many times, and so many s
#: more: a word said slowly or with emphasis is not a hole.
MOST, STRETCHED = 2.0, 0.4


@dataclass(frozen=True, slots=True)
class Hole:
    """A span of a clip, in s, and the seconds of speech in it that no word accounts for. It
    includes the whole of a word that is stretched over some of it, as that may be said at either
    end; such a word accounts for as much speech as others like it in the clip."""

    start: float
    end: float
    speech: float

    @property
    def span(self) -> Span:
        return self.start, self.end


def holes(words: Sequence[Word], spans: Sequence[Span], seconds: float) -> list[Hole]:
    """Holes in the text of a clip of `seconds`, in order; `spans`: its speech."""
    joined: dict[int, Hole] = {}  # by the place of the last piece
    last = -2
    for place, piece in _pieces(words, spans, seconds):
        if place == last + 1 or (place == last + 2 and place % 2):  # no sound word lies between
            before = joined.pop(last)
            piece = Hole(before.start, piece.end, before.speech + piece.speech)
        joined[place] = piece
        last = place
    least = {2 * len(words): LAST_SECONDS} if words else {}
    return [h for place, h in joined.items() if h.speech >= least.get(place, LEAST_SECONDS)]


def _pieces(
    words: Sequence[Word], spans: Sequence[Span], seconds: float
) -> Iterator[tuple[int, Hole]]:
    """Gaps with speech and stretched words, numbered: word n is 2 n + 1, the gap before it 2 n."""
    covered, pace = 0.0, _pace(words, spans)
    for number, word in enumerate([*words, None]):
        start = seconds if word is None else word.start
        if (missing := speech.within(spans, covered, start)) > 0:
            # Speech that continues from the last word is cut there; other speech keeps its lead.
            first = next(first for first, last in spans if last > covered)
            yield 2 * number, Hole(max(covered, first - LEAD_SECONDS), start, missing)
        if word is None:
            return
        taken = speech.within(spans, word.start, word.end)
        expected = pace * _usual(word)
        if taken > MOST * expected + STRETCHED:
            yield 2 * number + 1, Hole(word.start, word.end, taken - expected)
        covered = max(covered, word.end)


def _pace(words: Sequence[Word], spans: Sequence[Span]) -> float:
    """Speech of the clip's words, in times their usual one: slow speech is not a hole."""
    paces = (speech.within(spans, word.start, word.end) / _usual(word) for word in words)
    return min(max(median([*paces] or [1.0]), 1.0), SLOWEST)


def _usual(word: Word) -> float:
    """Speech that a word usually takes, s."""
    text = word.word.strip()
    spelled = sum(c.isdigit() for c in text) + len(text) * text.isupper()
    return WORD_SECONDS + CHARACTER_SECONDS * len(text) + SPELLED_SECONDS * spelled
