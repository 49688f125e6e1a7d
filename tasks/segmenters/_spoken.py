"""Where each sentence of a text is spoken, by the words that a recogniser heard.

A sentence is found where enough of its words were heard in their order, some of them at its very
beginning and end. It begins and ends in the pause beside those words: recognisers give a pause to
one of the words at its ends, so pauses are those of the voice detector. Without a pause it begins
halfway between two words.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from rapidfuzz.distance import Levenshtein

from tasks import scoring
from tasks.plugins.contracts.segmenters import Heard
from tasks.segmenters import _matching, _sentences

LEAST_MATCH = 0.5  # of the words; below it, a sentence was not said
NEAR = 6  # words from an even part at which a clause may end instead
LONG_PAUSE = 60.0  # s; so is the one after the last word
DOUBTFUL = 0.6  # most match of a sentence of which an end was not heard
SIMILAR = 0.6  # share of letters that lost words and what was heard in their place have in common
EDGE = 2  # words at an end that may have been misheard
PAD = 0.1  # s of a pause that stay on each side, at most half of it
FAR = 0.7  # s of a pause, beyond which a word that resembles none is not taken for one
MOST_WORDS = 40  # of a sentence; a longer one is divided
_WORD = re.compile(r"\S+\s*")
_UNSPACED_END = re.compile(r"(?<=[。！？])(?=\S)")


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of the text. `span`: where it is spoken, in s; None: nowhere. `match`: the share
    of its words, and of those that were heard in the span, that agree; or of their letters, where
    that is more."""

    text: str
    span: tuple[float, float] | None
    match: float


def sentences(text: str) -> list[str]:
    """Sentences in order, none empty; blank lines end one, too."""
    found = []
    for paragraph in re.split(r"\n\s*\n", text):
        words = [w for part in _UNSPACED_END.split(paragraph) for w in _WORD.findall(part)]
        if words:
            found += list(_cut(words))
    return found


def _cut(words: list[str]) -> Iterator[str]:
    """Sentences of one paragraph; long ones in equal parts, or nearly so at ends of clauses."""
    ranks = [
        _sentences.rank(word.strip(), following)
        for word, following in zip(words, [*words[1:], ""], strict=True)
    ]
    ends = [at + 1 for at, rank in enumerate(ranks) if rank == 0 or at + 1 == len(words)]
    for first, last in pairwise([0, *ends]):
        count = -(-(last - first) // MOST_WORDS)
        cuts = [first]
        for n in range(1, count):
            even = first + n * (last - first) // count
            clauses = [at + 1 for at in range(even - NEAR, even + NEAR) if ranks[at] == 1]
            cuts.append(min(clauses, key=lambda at: abs(at - even), default=even))
        for low, high in pairwise([*cuts, last]):
            yield "".join(words[low:high]).strip()


def spoken(text: str, heard: Heard) -> list[Sentence]:
    """All sentences of the text in order; the spans of those that were found ascend and do not
    overlap."""
    language = heard.language or ""
    written = sentences(text)
    said = [_words(sentence, language) for sentence in written]
    each = ((n, _word(word.word, language)) for n, word in enumerate(heard.words))
    times = [(token, n) for n, several in each for token in several]
    tokens = [token for token, _ in times]
    by_token = dict(_matching.pairs([token for words in said for token in words], tokens))
    places: list[_Place] = []
    first = 0
    for words in said:
        own = [(n, by_token[first + n]) for n in range(len(words)) if first + n in by_token]
        places.append(_place(words, tokens, _together(_together(own)[::-1])[::-1]))
        first += len(words)
    good = [place for place in places if place.match >= LEAST_MATCH]
    pauses = Pauses(heard)
    for before, place, after in zip([None, *good], good, [*good[1:], None], strict=False):
        low = before.last + 1 if before else 0
        high = after.first if after else len(tokens)
        if place.head or place.tail:
            place.recover(tokens, (low, high), pauses.near(times, place.first, place.last))
    found = []
    for sentence, words, place in zip(written, said, places, strict=True):
        span = None
        place.compare(words, tokens)
        if place.match >= LEAST_MATCH:
            span = pauses.around(times[place.first][1], times[place.last][1])
        known = span is not None and span[1] > span[0]
        found.append(Sentence(sentence, span if known else None, place.match))
    return found


@dataclass(slots=True)
class _Place:
    """Where a sentence was heard: its first and last token that agree with one heard. `head` and
    `tail`: words before and behind them; `replaced`: how many other words stand in their place."""

    first: int
    last: int
    match: float
    head: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    replaced: tuple[int, int] = (0, 0)
    doubtful: bool = False

    def compare(self, words: Sequence[str], heard: Sequence[str]) -> None:
        """Where all of it was heard, letters count, too: a word misheard shares most of them."""
        if self.match >= LEAST_MATCH and not self.doubtful:
            there = "".join(heard[self.first : self.last + 1])
            near = Levenshtein.normalized_similarity("".join(words), there)
            self.match = max(self.match, near)

    def recover(self, heard: Sequence[str], within: _matching.Pair, near: _matching.Pair) -> None:
        """Take up what was heard of the ends: what resembles them in the range `within`, else what
        an edit set in their place in the range `near`. Without either the sentence is doubtful,
        since its span may lack a word."""
        if self.head:
            count = _resembling(self.head[::-1], heard[within[0] : self.first][::-1])
            count = count or min(self.replaced[0], self.first - max(within[0], near[0]))
            self.first -= count
            self.doubtful |= not count
        if self.tail:
            count = _resembling(self.tail, heard[self.last + 1 : within[1]])
            count = count or min(self.replaced[1], min(within[1], near[1]) - 1 - self.last)
            self.last += count
            self.doubtful |= not count
        if self.doubtful:
            self.match = min(self.match, DOUBTFUL)


def _resembling(lost: Sequence[str], heard: Sequence[str]) -> int:
    """How many of the next heard words together resemble the lost ones best; 0: none do."""
    want = "".join(sorted("".join(lost)))
    best, count = SIMILAR, 0
    for n in range(1, min(len(lost) + EDGE, len(heard)) + 1):
        near = Levenshtein.normalized_similarity(want, "".join(sorted("".join(heard[:n]))))
        if near > best:
            best, count = near, n
    return count


def _place(words: Sequence[str], heard: Sequence[str], own: list[_matching.Pair]) -> _Place:
    agreeing = [n for n, other in own if _matching.alike(words[n], heard[other])]
    if not agreeing or agreeing[0] > EDGE or agreeing[-1] < len(words) - 1 - EDGE:
        return _Place(0, 0, 0.0)
    other = dict(own)
    first, last = other[agreeing[0]], other[agreeing[-1]]
    before = first - own[0][1] if own[0][0] == 0 else 0
    behind = own[-1][1] - last if own[-1][0] == len(words) - 1 else 0
    match = len(agreeing) / max(len(words), own[-1][1] - own[0][1] + 1)
    head, tail = list(words[: agreeing[0]]), list(words[agreeing[-1] + 1 :])
    return _Place(first, last, match, head, tail, (before, behind))


def _together(own: list[_matching.Pair]) -> list[_matching.Pair]:
    """Without a first pair that was heard far from the second: it is another sentence's."""
    while len(own) > 1 and abs(own[1][1] - own[0][1]) > abs(own[1][0] - own[0][0]) + EDGE:
        own = own[1:]
    return own


def _words(text: str, language: str) -> list[str]:
    return scoring.words(scoring.normalise(text, language))


@lru_cache(maxsize=65_536)  # a book has that many different words
def _word(word: str, language: str) -> tuple[str, ...]:
    return tuple(_words(word, language))


class Pauses:
    """Where nobody speaks, and the words that were heard."""

    def __init__(self, heard: Heard) -> None:
        self._words = heard.words
        edges = [0.0, *(edge for span in heard.speech for edge in span), float("inf")]
        self._pauses = [(a, b) for a, b in zip(edges[::2], edges[1::2], strict=True) if b > a]
        self._ends = [end for _, end in self._pauses]

    def around(self, first: int, last: int) -> tuple[float, float]:
        """The span of words `first` to `last`: s."""
        return self._bound(first)[1], self._bound(last + 1)[0]

    def near(self, words: Sequence[tuple[str, int]], first: int, last: int) -> _matching.Pair:
        """The range of tokens, each with its word, around `first` to `last` that no long pause
        parts from these; at most `MOST_WORDS` more on either side."""
        low, high = first, last + 1
        least, most = max(first - MOST_WORDS, 0), min(high + MOST_WORDS, len(words))
        while low > least and not self._parted(words[low - 1][1], words[low][1]):
            low -= 1
        while high < most and not self._parted(words[high - 1][1], words[high][1]):
            high += 1
        return low, high

    def _parted(self, first: int, last: int) -> bool:
        """Whether a long pause lies between two words that follow each other."""
        low, high = ((self._words[n].start + self._words[n].end) / 2 for n in (first, last))
        return any(end - start > FAR for start, end in self._within(low, high))

    def _bound(self, index: int) -> tuple[float, float]:
        """Between two words: where the one before ends and where word `index` begins, in s."""
        words = self._words
        before = words[index - 1] if index else None
        after = words[index] if index < len(words) else None
        low = (before.start + before.end) / 2 if before else 0.0
        high = after.end if after else float("inf")  # it may hold the pause before it
        best = max(self._within(low, high), key=lambda p: min(p[1], 1e9) - p[0], default=None)
        if best is None:
            at = ((before.end if before else 0.0) + (after.start if after else low)) / 2
            if after is None:
                at = before.end if before else 0.0
            return at, at
        middle = (best[0] + best[1]) / 2
        return min(best[0] + PAD, middle), max(best[1] - PAD, middle)

    def _within(self, low: float, high: float) -> Iterator[tuple[float, float]]:
        for at in range(bisect_left(self._ends, low), len(self._pauses)):
            start, end = self._pauses[at]
            if start >= high:
                return
            if low < (start + min(end, start + LONG_PAUSE)) / 2 < high:
                yield start, end


def unsaid(sentences: Sequence[Sentence]) -> Iterator[tuple[int, str]]:
    """Runs of sentences that are spoken nowhere: the index before which each lies, and its text."""
    run: list[str] = []
    for index, sentence in enumerate(sentences):
        if sentence.span is None:
            run.append(sentence.text)
        elif run:
            yield index, " ".join(run)
            run = []
    if run:
        yield len(sentences), " ".join(run)
