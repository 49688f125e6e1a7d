"""Where sentences end: in a text, among words that have times, and in the pauses of a recording."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..recording import TimedWord
from ..recording.turns import OPENING

SENTENCE_ENDS = ".!?…。！？｡।۔؟։።"
CLAUSE_ENDS = ",;:，；：、،؛"
CLOSING = " \t\"'”’»)]}」』》"
#: Words whose full stop does not end a sentence, such as titles; nor does a single letter's.
_ENGLISH = "mr mrs ms dr prof st no vs etc fig"
_OTHERS = "sr sra srta d dña hr fr nr bzw ca evtl ggf usw"
ABBREVIATIONS = frozenset(f"{_ENGLISH} {_OTHERS}".split(" "))


def cuts(
    words: Sequence[TimedWord], start: float, end: float, target: float, longest: float
) -> list[float]:
    """Seconds at which to cut the span from `start` to `end`, in order; none if it is not longer
    than `longest`. No piece is longer than that, unless a single word is."""
    places = [
        ((one.end + other.start) / 2, rank(one.word, other.word), other.start - one.end)
        for one, other in pairwise(words)
    ]
    chosen: list[float] = []
    begin = start
    while end - begin > longest:
        fair = [p for p in places if begin + target / 2 <= p[0] <= begin + longest]
        late = [p for p in fair if end - p[0] >= target / 2]  # leaves no scrap at the end
        if not (late or fair):
            after = [p for p in places if p[0] > begin]
            if not after:
                break
            best = after[0]
        else:
            wanted = begin + target
            best = min(late or fair, key=lambda p: (p[1], _cost(p, wanted)))
        chosen.append(best[0])
        begin = best[0]
    return chosen


def _cost(place: tuple[float, int, float], wanted: float) -> float:
    """Distance from the wanted length at an end of a sentence or clause; elsewhere the shortness of
    the pause."""
    where, rank, pause = place
    return abs(where - wanted) if rank < 2 else -pause


def rank(word: str, following: str) -> int:
    """0 if a sentence ends after the word, 1 if a clause does, else 2."""
    core = word.rstrip(CLOSING)
    last = core[-1:]
    if last and last in SENTENCE_ENDS:
        stem = core.rstrip(SENTENCE_ENDS).lstrip(OPENING).lower()
        short = stem in ABBREVIATIONS or (len(stem) == 1 and "a" <= stem <= "z")
        goes_on = following.strip()[:1].islower()
        return 2 if goes_on or (last == "." and short) else 0
    return 1 if last and last in CLAUSE_ENDS else 2


NEAR = 6  # words from an equal part at which a clause may end instead
MOST_WORDS = 40  # of a sentence; a longer one is divided
LEAST_WORDS = 10  # of a part that ends at a clause further away
_WORD = re.compile(r"\S+\s*")
_UNSPACED_END = re.compile(r"(?<=[。！？])(?=\S)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the text. `span`: where it is spoken, in s, or None. `match`: the share of
    matching words, or of letters if that is higher, among its own and those heard in the span."""

    text: str
    span: tuple[float, float] | None
    match: float


def sentences(text: str) -> list[str]:
    """Non-empty sentences in order; a blank line also ends one."""
    result = []
    for paragraph in re.split(r"\n\s*\n", text):
        words = [w for part in _UNSPACED_END.split(paragraph) for w in _WORD.findall(part)]
        if words:
            result += list(_cut(words))
    return result


def _cut(words: list[str]) -> Iterator[str]:
    """Sentences of one paragraph; long ones in equal parts, roughly, at ends of clauses."""
    ranks = [rank(word.strip(), following) for word, following in pairwise([*words, ""])]
    ends = [n + 1 for n, end in enumerate(ranks) if end == 0 or n + 1 == len(words)]
    for first, last in pairwise([0, *ends]):
        count = -(-(last - first) // MOST_WORDS)
        edges = [first]
        for n in range(1, count):
            even = first + n * (last - first) // count
            most = MOST_WORDS * (count - n)
            near = range(even - NEAR + 1, even + NEAR + 1)
            far = range(
                max(edges[-1] + LEAST_WORDS, last - most),
                min(edges[-1] + MOST_WORDS, last - LEAST_WORDS * (count - n)) + 1,
            )
            clauses = [index for index in (*near, *far) if ranks[index - 1] == 1]
            edges.append(min(clauses, key=lambda index: abs(index - even), default=even))
        for low, high in pairwise([*edges, last]):
            yield "".join(words[low:high]).strip()


LONG_PAUSE = 60.0  # s; stands for the endless one after the last word
PAD = 0.1  # s of a pause kept on each side, at most half of it
FAR = 0.7  # s; a longer pause counts as long: beyond it, words must resemble those of the text
REACH = 40  # words on each side of a sentence that may be its own


class Pauses:
    """The pauses between spans of speech, and the words that were heard. `word_of`: which word each
    token is of."""

    def __init__(
        self,
        words: Sequence[TimedWord],
        speech: Sequence[tuple[float, float]],
        word_of: Sequence[int] = (),
    ) -> None:
        self._words, self._word_of = words, word_of
        edges = [0.0, *(edge for span in speech for edge in span), float("inf")]
        self._pauses = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]
        self._ends = [end for _, end in self._pauses]

    def around(self, first: int, last: int) -> tuple[float, float]:
        """The span of words `first` to `last`, s."""
        return self._bound(first)[1], self._bound(last + 1)[0]

    def at(self, token: int) -> bool:
        """Whether there is a pause, or no word, before a token."""
        if not 0 < token < len(self._word_of):
            return True
        before, word = self._word_of[token - 1], self._word_of[token]
        return before != word and self._best(word) is not None

    def near(self, first: int, last: int) -> tuple[int, int]:
        """The range of tokens around `first` to `last` up to the next long pauses, at most `REACH`
        more on either side."""
        low, high = first, last + 1
        least, most = max(first - REACH, 0), min(high + REACH, len(self._word_of))
        while low > least and not self.parts(low):
            low -= 1
        while high < most and not self.parts(high):
            high += 1
        return low, high

    def parts(self, token: int) -> bool:
        """Whether a long pause lies between a token and the one before it."""
        both = (self._words[self._word_of[n]] for n in (token - 1, token))
        low, high = ((word.start + word.end) / 2 for word in both)
        return any(end - start > FAR for start, end in self._within(low, high))

    def torn(self, token: int) -> bool:
        """Whether a long pause lies within a token's word, before most of it."""
        word = self._words[self._word_of[token]]
        return any(
            start > word.start and end - start > FAR
            for start, end in self._within(word.start, (word.start + word.end) / 2)
        )

    def _bound(self, index: int) -> tuple[float, float]:
        """Between two words: where the one before ends and where word `index` begins, in s."""
        words = self._words
        before = words[index - 1] if index else None
        after = words[index] if index < len(words) else None
        best = self._best(index)
        if best is None:
            low = (before.start + before.end) / 2 if before else 0.0
            border = ((before.end if before else 0.0) + (after.start if after else low)) / 2
            if after is None:
                border = before.end if before else 0.0
            return border, border
        middle = (best[0] + best[1]) / 2
        return min(best[0] + PAD, middle), max(best[1] - PAD, middle)

    def _best(self, index: int) -> tuple[float, float] | None:
        """The longest pause between word `index` and the one before it."""
        words = self._words
        low = (words[index - 1].start + words[index - 1].end) / 2 if index else 0.0
        high = words[index].end if index < len(words) else float("inf")  # it may hold the pause
        return max(self._within(low, high), key=lambda p: min(p[1], 1e9) - p[0], default=None)

    def _within(self, low: float, high: float) -> Iterator[tuple[float, float]]:
        for number in range(bisect_left(self._ends, low), len(self._pauses)):
            start, end = self._pauses[number]
            if start >= high:
                return
            if low < (start + min(end, start + LONG_PAUSE)) / 2 < high:
                yield start, end
