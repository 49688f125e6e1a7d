"""Speech of a clip that no word of its text accounts for.

Whisper may end a text at a pause or skip a sentence, and report good scores. The times of the words
(cross-attention) show it in two ways: no word where there is speech, or one word that is stretched
over what was skipped.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from tasks import speech
from tasks.asr import Word
from tasks.speech import Span

LEAST_SECONDS = 0.8  # of speech in a hole; a word may end up to 0.5 s before its speech
LEAD_SECONDS = 0.2  # of audio before speech that has no words
#: Speech that a word usually takes, s: a start, and more for each character, or for each figure or
#: letter that is said one by one.
WORD_SECONDS, CHARACTER_SECONDS, SPELLED_SECONDS = 0.2, 0.03, 0.3
#: Slowest pace of a clip, in times that speech: if half of the words take more, they are stretched.
SLOWEST = 2.5
#: A word is stretched if it takes longer than its like in the clip this many times, and so many s
#: more: said slowly or with emphasis, a word is no hole.
MOST, STRETCHED = 2.0, 0.4


@dataclass(frozen=True, slots=True)
class Hole:
    """A span of a clip, in s, and the seconds of speech in it that no word accounts for. A word
    that is stretched over some of it is in it as a whole: it may be said at either end; it accounts
    for as much speech as its like in the clip."""

    start: float
    end: float
    speech: float

    @property
    def span(self) -> Span:
        return self.start, self.end


def holes(words: Sequence[Word], spans: Sequence[Span], seconds: float) -> list[Hole]:
    """Holes in the text of a clip of `seconds`, in order; `spans`: its speech."""
    joined: list[Hole] = []
    last = -2
    for place, piece in _pieces(words, spans, seconds):
        if place == last + 1 or (place == last + 2 and place % 2):  # no sound word lies between
            before = joined.pop()
            piece = Hole(before.start, piece.end, before.speech + piece.speech)
        joined.append(piece)
        last = place
    return [hole for hole in joined if hole.speech >= LEAST_SECONDS]


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
    """Speech of the clip's words, in times their usual one: a slow speaker leaves nothing out."""
    paces = (speech.within(spans, word.start, word.end) / _usual(word) for word in words)
    return min(max(median([*paces] or [1.0]), 1.0), SLOWEST)


def _usual(word: Word) -> float:
    """Speech that a word usually takes, s."""
    text = word.word.strip()
    spelled = sum(c.isdigit() for c in text) + len(text) * text.isupper()
    return WORD_SECONDS + CHARACTER_SECONDS * len(text) + SPELLED_SECONDS * spelled
