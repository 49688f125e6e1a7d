"""Where each sentence of a text is spoken, by the words that a recogniser heard. A sentence is
found if enough of its words were heard in order, some of them at its very beginning and end. It
begins and ends in the pause next to those words: recognisers give a pause to one of the words at
its ends, so pauses are those of the voice detector. Without a pause it begins halfway between two
words; and unless the word before it is the last one of another sentence of the text, it is
doubtful: its words are then part of something longer that the text does not have.

It is also doubtful if the words at its ends were not heard; if its words are only part of what is
said there: on one side the speaker goes on without a pause, with something that is not in the text;
or if its first or last words may belong elsewhere: they lie beyond a long pause, in speech whose
own words were lost.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import chain

from rapidfuzz.distance import LCSseq, Levenshtein

from .. import scoring
from ..plugins.contracts.segmenters import RecordingTranscript
from ._sentences import Pauses, Sentence, sentences

LEAST_MATCH = 0.5  # of the words; below it, a sentence was not said
DOUBTFUL = 0.6  # most match of a sentence of which an end was not heard
SIMILAR = 0.6  # share of letters common to lost words and those heard in their place
EDGE = 2  # words at an end that may have been misheard
EXTRA = 10  # words of a sentence per word heard before or after it outside the text

Range = tuple[int, int]


@dataclass(slots=True)
class Place:
    """Where a sentence was heard. `first`, `last`: the outermost heard tokens that agree with its
    `words`; `head`, `tail`: its words beyond those; `replaced`: how many other words were heard in
    place of each."""

    words: Sequence[str]
    first: int = 0
    last: int = 0
    match: float = 0.0
    head: list[str] = field(default_factory=list)
    tail: list[str] = field(default_factory=list)
    replaced: tuple[int, int] = (0, 0)
    no_head: bool = False  # `head` was not recovered
    no_tail: bool = False
    doubtful: bool = False

    @property
    def heard(self) -> bool:
        return self.match >= LEAST_MATCH

    def compare(self, heard: Sequence[str]) -> None:
        """Compare letters, too, if all of it was heard: a misheard word shares most of them."""
        if self.heard and not self.doubtful:
            letters = "".join(heard[self.first : self.last + 1])
            near = Levenshtein.normalized_similarity("".join(self.words), letters)
            self.match = max(self.match, near)

    def doubt(self) -> None:
        self.doubtful, self.match = True, min(self.match, DOUBTFUL)

    def meets(self, other: Place | None) -> bool:
        """Whether no word was heard between this sentence and a completely heard one."""
        if other is None or other.doubtful:
            return False
        return self.last + 1 == other.first or other.last + 1 == self.first


class Search:
    """The words heard in a recording, among which the sentences of its text are searched."""

    def __init__(self, tokens: Sequence[str], pauses: Pauses) -> None:
        self.tokens, self._pauses = tokens, pauses

    def places(self, sentences: Sequence[Sequence[str]]) -> list[Place]:
        """The place of each sentence, given as words; the heard ones ascend."""
        by_token = dict(pairs([token for words in sentences for token in words], self.tokens))
        places: list[Place] = []
        first = 0
        for words in sentences:
            matches = [(n, by_token[first + n]) for n in range(len(words)) if first + n in by_token]
            places.append(_place(words, self.tokens, matches))
            first += len(words)
        heard = [place for place in places if place.heard]
        beside = [*zip([None, *heard], heard, [*heard[1:], None], strict=False)]
        for neighbours in beside:
            self._recover(*neighbours)
        parts = [neighbours for neighbours in beside if not self._whole(*neighbours)]
        doubtful = [p for n, p in enumerate(places) if p.heard and self._strays(places, n)]
        for neighbours in parts:
            self._widen(*neighbours)
            if not self._whole(*neighbours):
                doubtful.append(neighbours[1])
        for place in doubtful:
            place.doubt()
        return places

    def _recover(self, before: Place | None, place: Place, after: Place | None) -> None:
        """Add the words heard in place of `head` and `tail`. Where none were, the sentence is
        doubtful: its span may lack a word."""
        low, high = self._between(before, after)
        least, most = self._pauses.near(place.first, place.last)
        if place.head:
            beyond, near = self.tokens[low : place.first][::-1], place.first - max(low, least)
            count = self._lost(place.head[::-1], beyond, place.replaced[0], near, place.first, -1)
            place.first -= count
            place.no_head = not count
        if place.tail:
            behind = place.last + 1
            beyond, near = self.tokens[behind:high], min(high, most) - behind
            count = self._lost(place.tail, beyond, place.replaced[1], near, behind, 1)
            place.last += count
            place.no_tail = not count
        if place.no_head or place.no_tail:
            place.doubt()

    def _lost(
        self,
        lost: Sequence[str],
        beyond: Sequence[str],
        replaced: int,
        near: int,
        token: int,
        way: int,
    ) -> int:
        """How many words beyond an end are its lost ones: those that resemble them; else, up to the
        long pause `near` words away, as many as an edit put in their place, or as many as reach a
        pause. `token`: the one before which the sentence ends; `way`: outwards, 1 or -1."""
        count = _resembling(lost, beyond) or min(replaced, near)
        return count or self._to_pause(token, way, range(1, min(len(lost) + 1, near) + 1))

    def _to_pause(self, token: int, way: int, counts: range) -> int:
        """How many words lie between a token and the next pause; 0 if not in `counts`."""
        return next((n for n in counts if self._pauses.at(token + way * n)), 0)

    def _between(self, before: Place | None, after: Place | None) -> Range:
        """The tokens between two sentences."""
        return before.last + 1 if before else 0, after.first if after else len(self.tokens)

    def _whole(self, before: Place | None, place: Place, after: Place | None) -> bool:
        """Whether each side has a pause or another sentence of the text."""
        return (self._pauses.at(place.first) or place.meets(before)) and (
            self._pauses.at(place.last + 1) or place.meets(after)
        )

    def _widen(self, before: Place | None, place: Place, after: Place | None) -> None:
        """Include a word or two heard between an end and the adjacent pause: a noise, or a word
        heard twice."""
        low, high = self._between(before, after)
        most = min(EDGE, len(place.words) // EXTRA)
        more = self._to_pause(place.first, -1, range(min(most, place.first - low) + 1))
        place.first -= more
        other = self._to_pause(place.last + 1, 1, range(min(most, high - 1 - place.last) + 1))
        place.last += other
        place.match *= 1 - (more + other) / len(place.words)

    def _strays(self, places: Sequence[Place], n: int) -> bool:
        """Whether a long pause separates a word or two at an end from the rest, and the
        neighbouring sentence lacks its words there: these may be its words, misheard."""
        place, pauses = places[n], self._pauses
        counts = range(1, min(EDGE, place.last - place.first) + 1)
        lost_before = n > 0 and places[n - 1].no_tail
        lost_after = n + 1 < len(places) and places[n + 1].no_head
        begins = [token for k in counts if pauses.parts(token := place.first + k)]
        return any(lost_before or pauses.torn(token) for token in begins) or (
            lost_after and any(pauses.parts(place.last + 1 - k) for k in counts)
        )


def _resembling(lost: Sequence[str], heard: Sequence[str]) -> int:
    """How many of the next heard words together best resemble the lost ones; 0 if none do."""
    want = "".join(sorted("".join(lost)))
    best, count = SIMILAR, 0
    for n in range(1, min(len(lost) + EDGE, len(heard)) + 1):
        near = Levenshtein.normalized_similarity(want, "".join(sorted("".join(heard[:n]))))
        if near > best:
            best, count = near, n
    return count


def _place(words: Sequence[str], heard: Sequence[str], matches: list[Pair]) -> Place:
    matches = _together(_together(matches)[::-1])[::-1]
    agreeing = [n for n, other in matches if alike(words[n], heard[other])]
    if not agreeing or agreeing[0] > EDGE or agreeing[-1] < len(words) - 1 - EDGE:
        return Place(words)
    other = dict(matches)
    first, last = other[agreeing[0]], other[agreeing[-1]]
    before = first - matches[0][1] if matches[0][0] == 0 else 0
    behind = matches[-1][1] - last if matches[-1][0] == len(words) - 1 else 0
    match = len(agreeing) / max(len(words), matches[-1][1] - matches[0][1] + 1)
    head, tail = list(words[: agreeing[0]]), list(words[agreeing[-1] + 1 :])
    return Place(words, first, last, match, head, tail, (before, behind))


def _together(matches: list[Pair]) -> list[Pair]:
    """Drops first pairs that were heard far from the second: they are another sentence's."""
    while (
        len(matches) > 1
        and abs(matches[1][1] - matches[0][1]) > abs(matches[1][0] - matches[0][0]) + EDGE
    ):
        matches = matches[1:]
    return matches


# Aligns the words of a text with the words that were heard; either list may hold long stretches
# that the other lacks.
#
# The longest common subsequence pairs equal words; between those, the fewest edits (Levenshtein)
# pair misheard words. Time grows with the product of their numbers (200,000 words in 22 s), and
# memory is a bit a pair up to `LCS_CELLS`; above, the edits do both, with memory for the words
# only. A long stretch in which little agrees is left unaligned.

LCS_CELLS = 1_000_000_000  # of a longest common subsequence: 125 MB
SMALL_CELLS = 4_000_000  # above, a fifth of the words must agree
LEAST_AGREEING = 0.2
SIMILAR_WORDS = 0.75  # least share of common letters of two spellings of a word

Pair = tuple[int, int]


def pairs(text: Sequence[str], heard: Sequence[str]) -> list[Pair]:
    """(index in `text`, index in `heard`) of matching words, ascending in both: equal ones, and
    those that an edit replaces."""
    gathered = _gathered(text, heard, _edited(text, heard))
    return [(one + n, other + n) for one, other, size in gathered for n in range(size)]


def _gathered(
    text: Sequence[str], heard: Sequence[str], matched: Iterable[Pair]
) -> list[tuple[int, int, int]]:
    """Runs of pairs, (index, index, length). Several subsequences may be longest; of a word that
    was heard more than once, this takes the one next to the run that continues it."""
    runs: list[tuple[int, int, int]] = []
    before = False  # whether the last pair is of equal words
    for one, other in matched:
        equal, before = before, text[one] == heard[other]
        goes_on = runs and (one, other) == (runs[-1][0] + runs[-1][2], runs[-1][1] + runs[-1][2])
        if goes_on and equal and before:
            runs[-1] = *runs[-1][:2], runs[-1][2] + 1
        else:
            runs.append((one, other, 1))
    kept: list[tuple[int, int, int]] = []  # reversed
    for one, other, size in reversed(runs):
        if kept and kept[-1][0] == one + size:
            first, begin, length = kept[-1]
            if heard[begin - size : begin] == text[one:first]:
                kept[-1] = one, begin - size, size + length
                continue
        kept.append((one, other, size))
    runs = []
    for one, other, size in reversed(kept):
        if runs and runs[-1][0] + runs[-1][2] == one:
            first, begin, length = runs[-1]
            if heard[begin + length : begin + length + size] == text[one : one + size]:
                runs[-1] = first, begin, length + size
                continue
        runs.append((one, other, size))
    return runs


def _edited(text: Sequence[str], heard: Sequence[str]) -> Iterator[Pair]:
    """The longest common subsequence of words; between its runs, pairs of the fewest edits.

    Edits alone would set a sentence that is only in the text against one that is only heard, over
    one that is in both.
    """
    cells = len(text) * len(heard)
    steps = (LCSseq if cells <= LCS_CELLS else Levenshtein).opcodes(text, heard)
    same = [(s.src_start, s.src_end, s.dest_start, s.dest_end) for s in steps if s.tag == "equal"]
    if cells > SMALL_CELLS:
        count = sum(end - start for start, end, _, _ in same)
        if count < LEAST_AGREEING * min(len(text), len(heard)):
            return
    begin, last = (0, 0), (len(text), len(text), len(heard), len(heard))
    for one, one_end, other, other_end in [*same, last]:
        if (one - begin[0]) * (other - begin[1]) <= SMALL_CELLS:
            for step in Levenshtein.opcodes(text[begin[0] : one], heard[begin[1] : other]):
                if step.tag == "replace":
                    first, second = begin[0] + step.src_start, begin[1] + step.dest_start
                    yield from (
                        (first + n, second + n) for n in range(step.src_end - step.src_start)
                    )
        yield from zip(range(one, one_end), range(other, other_end), strict=True)
        begin = one_end, other_end


def alike(one: str, other: str) -> bool:
    """Whether two words differ in a few letters at most."""
    return one == other or Levenshtein.normalized_similarity(one, other) >= SIMILAR_WORDS


def spoken(text: str, heard: RecordingTranscript) -> list[Sentence]:
    """All sentences of the text in order; the spans of those that were found ascend and do not
    overlap."""
    language = heard.language or ""
    written = sentences(text)
    words = [_words(sentence, language) for sentence in written]
    tokens = [_words(word.word, language) for word in heard.words]
    word_of = [n for n, several in enumerate(tokens) for _ in several]
    pauses = Pauses(heard.words, heard.speech, word_of)
    search = Search([*chain.from_iterable(tokens)], pauses)
    result = []
    for sentence, place in zip(written, search.places(words), strict=True):
        span = None
        place.compare(search.tokens)
        if place.heard:
            span = pauses.around(word_of[place.first], word_of[place.last])
        placed = span is not None and span[1] > span[0]
        result.append(Sentence(sentence, span if placed else None, place.match))
    return result


@lru_cache(maxsize=65_536)  # a book has that many different words
def _words(text: str, language: str) -> list[str]:
    return scoring.words(scoring.normalise(text, language))
