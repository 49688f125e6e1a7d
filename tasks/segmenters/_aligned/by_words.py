"""Where each sentence of a text is spoken, by the words that a recogniser heard. A sentence is
found if enough of its words were heard in order, some of them at its very beginning and end. It
begins and ends in the pause next to those words: recognisers give a pause to one of the words at
its ends, so pauses are those of the voice detector. Without a pause it begins halfway between two
words; and unless the word before it is the last one of another sentence of the text, it is
doubtful: its words are then part of something longer that the text does not have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, pairwise

from ... import scoring
from ...plugins.contracts.segmenters import RecordingTranscript
from .. import _sentences
from . import places
from .pauses import Pauses

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
    ranks = [
        _sentences.rank(word.strip(), following)
        for word, following in zip(words, [*words[1:], ""], strict=True)
    ]
    ends = [index + 1 for index, rank in enumerate(ranks) if rank == 0 or index + 1 == len(words)]
    for first, last in pairwise([0, *ends]):
        count = -(-(last - first) // MOST_WORDS)
        cuts = [first]
        for n in range(1, count):
            even = first + n * (last - first) // count
            most = MOST_WORDS * (count - n)
            near = range(even - NEAR + 1, even + NEAR + 1)
            far = range(
                max(cuts[-1] + LEAST_WORDS, last - most),
                min(cuts[-1] + MOST_WORDS, last - LEAST_WORDS * (count - n)) + 1,
            )
            clauses = [index for index in (*near, *far) if ranks[index - 1] == 1]
            cuts.append(min(clauses, key=lambda index: abs(index - even), default=even))
        for low, high in pairwise([*cuts, last]):
            yield "".join(words[low:high]).strip()


def spoken(text: str, heard: RecordingTranscript) -> list[Sentence]:
    """All sentences of the text in order; the spans of those that were found ascend and do not
    overlap."""
    language = heard.language or ""
    written = sentences(text)
    words = [_words(sentence, language) for sentence in written]
    tokens = [_word(word.word, language) for word in heard.words]
    word_of = [n for n, several in enumerate(tokens) for _ in several]
    pauses = Pauses(heard.words, heard.speech, word_of)
    search = places.Search([*chain.from_iterable(tokens)], pauses)
    result = []
    for sentence, place in zip(written, search.places(words), strict=True):
        span = None
        place.compare(search.tokens)
        if place.heard:
            span = pauses.around(word_of[place.first], word_of[place.last])
        placed = span is not None and span[1] > span[0]
        result.append(Sentence(sentence, span if placed else None, place.match))
    return result


def _words(text: str, language: str) -> list[str]:
    return scoring.words(scoring.normalise(text, language))


@lru_cache(maxsize=65_536)  # a book has that many different words
def _word(word: str, language: str) -> tuple[str, ...]:
    return tuple(_words(word, language))
