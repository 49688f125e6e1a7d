"""Times of the words of a given text, from the emissions of a CTC model.

The likeliest path through the emissions may pass over any word, and over sound between two words,
so that a text with words that nobody says, or without some that are said, keeps the times of the
others. A word's probability is the geometric mean of its tokens', each at its likeliest frame; 0
where the path passes over it, and unknown where the model has no token for it: both kinds share
the time between their neighbours.

Tokens are likeliest in the middle of their sounds, so a word begins and ends `BESIDE` outside of
them, and no further than halfway to its neighbour.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np

from ..base.arrays import Float32s, Float64s
from ..scoring import UNSPACED, ctc_path
from ..scoring.alphabet import Alphabet, Spelling
from . import Word

LEAST_PROBABILITY = 1e-6
COSTS = ctc_path.Costs(star=3.0, skip=6.0)  # of words
BESIDE = 0.04  # s
#: A character of a script without spaces, or a run of others; each with the space before it.
_PIECE = re.compile(rf"\s*(?:[{UNSPACED}]|[^\s{UNSPACED}]+)")


def words_of(text: str) -> list[str]:
    """The words of a text, which joined are the text: marks and punctuation belong to the word
    before them, at the start to the first one."""
    words: list[str] = []
    for piece in _PIECE.findall(text):
        if words and not any(map(_said, piece)):
            words[-1] += piece
        elif len(words) == 1 and not any(map(_said, words[0])):
            words[0] += piece
        else:
            words.append(piece)
    return words


def _said(character: str) -> bool:
    return unicodedata.category(character)[0] in "LN"


def spelled(words: Sequence[str], alphabet: Alphabet, language: str) -> list[list[int]]:
    """Tokens of each word; none where no character of it has one."""
    spelling = Spelling(alphabet)
    return [
        spelling.word(word, language, n == 0 or word[:1].isspace()) for n, word in enumerate(words)
    ]


def timed(
    words: Sequence[str],
    tokens: Sequence[Sequence[int]],
    alphabet: Alphabet,
    emissions: Float32s,
    edges: Float64s,
) -> tuple[Word, ...]:
    """The words with times, by log-probabilities [T, V]; `tokens` of each word; `edges`: s of each
    frame's start, and of the last one's end [T + 1]."""
    blank = alphabet.blank
    heard = emissions.copy()
    for space in Spelling(alphabet).space:  # nothing is said in it either
        heard[:, blank] = np.logaddexp(heard[:, blank], heard[:, space])
    places = [n for n, numbers in enumerate(tokens) if numbers]
    whole = np.array([*chain.from_iterable(tokens)], np.int64)
    firsts = np.cumsum([0, *(len(tokens[place]) for place in places)])[:-1]
    path = ctc_path.align(heard, whole, firsts, blank, COSTS)
    sure = np.fromiter(ctc_path.confidence(emissions, whole, path), np.float64, len(whole))
    logs = np.log(np.maximum(sure, LEAST_PROBABILITY))
    begin, until = float(edges[0]), float(edges[-1])
    spans: list[tuple[float, float]] = []
    probabilities: dict[int, float] = {}
    for place, first in zip(places, firsts.tolist(), strict=True):
        last = first + len(tokens[place])
        if path.starts[first] >= 0:
            spans.append((float(edges[path.starts[first]]), float(edges[path.ends[last - 1]])))
            probabilities[place] = float(np.exp(logs[first:last].mean()))
    wide = _wider(spans, begin, until)
    timed_spans = {
        place: (*span, probability)
        for (place, probability), span in zip(probabilities.items(), wide, strict=True)
    }
    return _completed(words, timed_spans, {*places}, begin, until)


def _wider(
    spans: Sequence[tuple[float, float]], begin: float, until: float
) -> list[tuple[float, float]]:
    """Ascending spans, each wider by `BESIDE` where there is room."""
    # Neighbours share a gap; at the ends of the clip there is no neighbour.
    before = [begin, *((end + start) / 2 for (_, end), (start, _) in pairwise(spans))]
    behind = [*before[1:], until]
    return [
        (max(start - BESIDE, min(low, start)), min(end + BESIDE, max(high, end)))
        for (start, end), low, high in zip(spans, before, behind, strict=False)
    ]


def _completed(
    words: Sequence[str],
    timed_spans: dict[int, tuple[float, float, float]],
    spelt: set[int],
    begin: float,
    until: float,
) -> tuple[Word, ...]:
    """Words with their (start, end, probability); those without share their neighbours' gap."""
    whole: list[Word] = []
    place = 0
    while place < len(words):
        if place in timed_spans:
            whole.append(Word(words[place], *timed_spans[place]))
            place += 1
            continue
        after = next((n for n in range(place, len(words)) if n in timed_spans), len(words))
        low = whole[-1].end if whole else begin
        high = timed_spans[after][0] if after in timed_spans else until
        shares = np.linspace(low, max(low, high), after - place + 1).tolist()
        for n, start, end in zip(range(place, after), shares[:-1], shares[1:], strict=True):
            whole.append(Word(words[n], start, end, 0.0 if n in spelt else None))
        place = after
    return tuple(whole)
