"""Where each sentence of a text is spoken, by the words that a recogniser heard.

A sentence is found where enough of its words were heard in their order, some of them at its very
beginning and end. It begins and ends in the pause beside those words: recognisers give a pause to
one of the words at its ends, so pauses are those of the voice detector. Without a pause it begins
halfway between two words; and unless the word before it is the last one of another sentence of the
text, it is doubtful: its words are then part of something longer that the text does not have.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import pairwise

from rapidfuzz.distance import Levenshtein

from tasks import scoring
from tasks.plugins.contracts.segmenters import Heard
from tasks.segmenters import _matching, _sentences
from tasks.segmenters._pauses import Pauses

LEAST_MATCH = 0.5  # of the words; below it, a sentence was not said
NEAR = 6  # words from an even part at which a clause may end instead
DOUBTFUL = 0.6  # most match of a sentence of which an end was not heard
SIMILAR = 0.6  # share of letters that lost words and what was heard in their place have in common
EDGE = 2  # words at an end that may have been misheard
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
    parts = [
        place
        for before, place, after in zip([None, *good], good, [*good[1:], None], strict=False)
        if not (pauses.at(times, place.first) or (before and before.meets(place)))
        or not (pauses.at(times, place.last + 1) or (after and after.meets(place)))
    ]
    for place in parts:
        place.doubt()
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
            self.doubt()

    def doubt(self) -> None:
        self.doubtful = True
        self.match = min(self.match, DOUBTFUL)

    def meets(self, other: _Place) -> bool:
        """Whether all of this sentence was heard, right before or behind another one."""
        return not self.doubtful and (self.last + 1 == other.first or other.last + 1 == self.first)


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
