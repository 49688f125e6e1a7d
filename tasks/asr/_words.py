"""When words are said: of an engine's tokens, which come with the start of each, some with its
probability, too; and of a given text, from the emissions of a CTC model.

The likeliest path through the emissions may pass over any word, and over sound between two words,
so that a text with words that nobody says, or without some that are said, keeps the times of the
others. A word's probability is the geometric mean of its tokens', each at its likeliest frame; 0
where the path passes over it, and unknown where the model has no token for it: both kinds share
the time between their neighbours.

Tokens are likeliest in the middle of their sounds, so a word begins and ends `BESIDE` outside of
them, and no further than halfway to its neighbour.
"""

import math
import re
import unicodedata
from collections.abc import Sequence
from itertools import chain, pairwise

import numpy as np

from ..base.arrays import Float32s, Float64s
from ..scoring import UNSPACED, UNSPACED_CHARACTER, ctc_path
from ..scoring.alphabet import Alphabet, Spelling
from . import Word

LEAST_PROBABILITY = 1e-6
COSTS = ctc_path.Costs(star=3.0, skip=6.0)  # of words
BESIDE = 0.04  # s
#: A character of a script without spaces, or a run of others; each with the space before it.
_PIECE = re.compile(rf"\s*(?:[{UNSPACED}]|[^\s{UNSPACED}]+)")


def words(
    text: str,
    tokens: Sequence[str],
    starts: Sequence[float],
    logprobs: Sequence[float] | None,
    step: float,
    seconds: float,
) -> tuple[Word, ...] | None:
    """The words of a text by its tokens; None if they do not make up the text. A word begins with a
    token that begins with a space; of scripts without spaces, each token is one.

    `starts`: where each token begins, s, within `seconds`. No engine gives their ends: a word ends
    one `step` after its last token begins, and before the next word begins. Its probability is the
    geometric mean of its tokens'.
    """
    if len(tokens) != len(starts) or (logprobs is not None and len(logprobs) != len(tokens)):
        return None
    groups: list[list[int]] = []
    for number, token in enumerate(tokens):
        if not groups or token[:1].isspace() or UNSPACED_CHARACTER.match(token):
            groups.append([])
        groups[-1].append(number)
    timed: list[Word] = []
    for place, group in enumerate(groups):
        start = min(max(starts[group[0]], 0.0), seconds)
        after = groups[place + 1][0] if place + 1 < len(groups) else None
        latest = seconds if after is None else min(starts[after], seconds)
        end = max(min(starts[group[-1]] + step, latest), start)
        sure = None
        if logprobs is not None:
            sure = min(math.exp(sum(logprobs[i] for i in group) / len(group)), 1.0)
        timed.append(Word("".join(tokens[i] for i in group), start, end, sure))
    return aligned(text, timed)


def aligned(text: str, timed: Sequence[Word]) -> tuple[Word, ...] | None:
    """The words as written in `text`: each with the characters after the word before it, and the
    punctuation that touches it. None if the words differ."""
    places: list[tuple[int, int]] = []
    position = 0
    folded = text.casefold()
    if len(folded) != len(text):  # a letter that folds into two: positions would be wrong
        folded = text
    for word in timed:
        bare = word.word.strip().casefold()
        first = folded.find(bare, position) if bare else position
        if first < 0 or any(map(str.isalnum, text[position:first])):
            return None
        position = first + len(bare)
        places.append((first, position))
    if any(map(str.isalnum, text[position:])):
        return None
    written: list[Word] = []
    begin = 0
    stops = [*(first for first, _ in places[1:]), len(text)]
    for word, (_, end), stop in zip(timed, places, stops, strict=False):
        tail = re.match(r"\S*", text[end:stop])
        last = end + len(tail[0]) if tail and len(written) + 1 < len(timed) else len(text)
        written.append(Word(text[begin:last], word.start, word.end, word.probability))
        begin = last
    return tuple(written)


def mean(logprobs: Sequence[float] | None) -> float | None:
    """Mean log-probability of tokens; None if there is none, or a number that is not the
    logarithm of a probability (some exported graphs give plain scores instead)."""
    if not logprobs or any(not math.isfinite(value) or value > 1e-3 for value in logprobs):
        return None
    return sum(min(value, 0.0) for value in logprobs) / len(logprobs)


def words_of(text: str) -> list[str]:
    """The words of a text, which joined are the text: marks and punctuation belong to the word
    before them, at the start to the first one."""
    words: list[str] = []
    for piece in _PIECE.findall(text):
        if words and not _said(piece):
            words[-1] += piece
        elif len(words) == 1 and not _said(words[0]):
            words[0] += piece
        else:
            words.append(piece)
    return words


def _said(piece: str) -> bool:
    return any(unicodedata.category(character)[0] in "LN" for character in piece)


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
    # Neighbours share a gap; at the ends of the clip there is no neighbour.
    before = [begin, *((end + start) / 2 for (_, end), (start, _) in pairwise(spans))]
    behind = [*before[1:], until]
    aligned_words = {
        place: Word(
            words[place],
            max(start - BESIDE, min(low, start)),
            min(end + BESIDE, max(high, end)),
            probability,
        )
        for (place, probability), (start, end), low, high in zip(
            probabilities.items(), spans, before, behind, strict=False
        )
    }
    return _completed(words, aligned_words, {*places}, begin, until)


def _completed(
    words: Sequence[str],
    aligned_words: dict[int, Word],
    spelt: set[int],
    begin: float,
    until: float,
) -> tuple[Word, ...]:
    """All words; those without a time share the gap of their neighbours, or up to an end."""
    whole: list[Word] = []
    for place in range(len(words)):
        if place in aligned_words:
            whole.append(aligned_words[place])
        elif len(whole) == place:  # the first of a gap
            after = next((n for n in range(place, len(words)) if n in aligned_words), len(words))
            low = whole[-1].end if whole else begin
            high = aligned_words[after].start if after in aligned_words else until
            shares = np.linspace(low, max(low, high), after - place + 1).tolist()
            for n, start, end in zip(range(place, after), shares[:-1], shares[1:], strict=True):
                whole.append(Word(words[n], start, end, 0.0 if n in spelt else None))
    return tuple(whole)
