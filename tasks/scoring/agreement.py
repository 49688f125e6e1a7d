"""Texts of several recognisers for one clip: how far they agree, and the text that they vote for.

The vote is ROVER (Fiscus 1997, "A post-processing system to yield reduced word error rates"): the
texts are aligned one after the other into a row of slots, in each of which every text has one word
or none; each slot goes to the word that most texts have, and on a tie to the earlier text's.
"""

import re
from collections.abc import Sequence
from itertools import combinations
from typing import NamedTuple

from rapidfuzz.distance import Levenshtein

from ._plain import UNSPACED, squeezed
from .rates import words
from .said import spoken

_WRITTEN = re.compile(rf"[{UNSPACED}][^\w\s{UNSPACED}]*|[^\s{UNSPACED}]+")
_SIGNS = re.compile(r"[^\w]+")
Slot = list[str | None]  # the written word of each text so far; None: no word


def rates(texts: Sequence[str], language: str | None = None) -> list[tuple[float, float]]:
    """(WER, CER) of each pair of normalised texts of a language, in the order of
    `itertools.combinations`: edits over the length of the longer text, so that neither is the
    reference; 0 for two empty texts."""
    texts = [spoken(text, language) for text in texts]
    split = [words(text) for text in texts]
    return [
        (_share(split[a], split[b]), _share(texts[a], texts[b]))
        for a, b in combinations(range(len(texts)), 2)
    ]


def _share(one: Sequence[str], other: Sequence[str]) -> float:
    longest = max(len(one), len(other))
    return Levenshtein.distance(one, other) / longest if longest else 0.0


def medoid(texts: Sequence[str]) -> int:
    """Index of the normalised text nearest to all others; the first on a tie."""
    split = [words(text) for text in texts]
    totals = [sum(_share(one, other) for other in split) for one in split]
    return totals.index(min(totals))


class Vote(NamedTuple):
    """`text`: the winning words, as the earliest text with them writes them; `confidence`: mean
    share of the texts that agree with the winner, over all slots; 1 for texts without words."""

    text: str
    confidence: float


def rover(texts: Sequence[str]) -> Vote:
    """The vote over texts as written; words are compared without case and punctuation."""
    slots: list[Slot] = []
    for number, text in enumerate(texts):
        slots = _aligned(slots, _WRITTEN.findall(text), number)
    won: list[str] = []
    shares = []
    for slot in slots:
        keys = [_key(word) for word in slot]
        best = max(range(len(keys)), key=lambda i: (keys.count(keys[i]), -i))
        shares.append(keys.count(keys[best]) / len(keys))
        if (word := slot[best]) is not None:
            won.append(word)
    return Vote(squeezed(" ".join(won)), sum(shares) / len(shares) if shares else 1.0)


def _key(word: str | None) -> str | None:
    """The word as it is compared: without case and signs; a word of signs only stays unchanged."""
    return None if word is None else _SIGNS.sub("", word.casefold()) or word


def _aligned(slots: list[Slot], written: list[str], number: int) -> list[Slot]:
    """The slots with one more text, the `number`-th, by fewest edits: 0 if a slot has the word,
    else 1; a tie prefers a slot to a gap."""
    keys = [_key(word) for word in written]
    keys_of = [{_key(word) for word in slot} for slot in slots]
    rows, columns = len(slots) + 1, len(written) + 1
    cost = [[0] * columns for _ in range(rows)]
    # An empty slot costs nothing if an earlier text has none there either.
    empty = [0 if None in keyed else 1 for keyed in keys_of]
    for i in range(1, rows):
        cost[i][0] = cost[i - 1][0] + empty[i - 1]
    cost[0] = list(range(columns))
    for i in range(1, rows):
        above, row, keyed, skip = cost[i - 1], cost[i], keys_of[i - 1], empty[i - 1]
        for j in range(1, columns):
            same = above[j - 1] + (keys[j - 1] not in keyed)
            row[j] = min(same, above[j] + skip, row[j - 1] + 1)
    aligned: list[Slot] = []
    i, j = rows - 1, columns - 1
    while i or j:
        current = cost[i][j]
        if i and j and current == cost[i - 1][j - 1] + (keys[j - 1] not in keys_of[i - 1]):
            i, j = i - 1, j - 1
            aligned.append([*slots[i], written[j]])
        elif i and current == cost[i - 1][j] + empty[i - 1]:
            i -= 1
            aligned.append([*slots[i], None])
        else:
            j -= 1
            aligned.append([*[None] * number, written[j]])
    return aligned[::-1]
