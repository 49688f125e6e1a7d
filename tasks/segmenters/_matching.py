"""Words of a text set against the words that were heard, in order, where each list may hold much
that the other lacks.

The fewest edits (Levenshtein) pair them, in memory for the words only, and in time for the product
of their numbers, 64 pairs at a time. Where that is too many, runs of words that occur once in both
lists are anchors: the longest chain of them that ascends in both stands, and the edits are those
between two of them. A long stretch in which little agrees is left alone.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from itertools import pairwise

from rapidfuzz.distance import Levenshtein

RUNS = (5, 3, 2)  # words of an anchor
MOST_CELLS = 15_000_000_000  # of a table of edits: 100,000 by 100,000 words in 2 s
SMALL_CELLS = 4_000_000  # above, a fifth of the words must agree
LEAST_AGREEING = 0.2
SIMILAR = 0.75  # share of its letters that a word misheard, or spelt otherwise, has in common

Pair = tuple[int, int]


def pairs(text: Sequence[str], heard: Sequence[str]) -> list[Pair]:
    """(index in `text`, index in `heard`) of words that stand for each other, ascending in both;
    equal ones, and those that an edit replaces."""
    return list(_between(text, heard, (0, 0), (len(text), len(heard)), 0))


def _between(
    text: Sequence[str], heard: Sequence[str], low: Pair, high: Pair, level: int
) -> Iterator[Pair]:
    """Pairs within [low, high) of both lists."""
    rows, columns = high[0] - low[0], high[1] - low[1]
    if not rows or not columns:
        return
    if rows * columns <= MOST_CELLS:
        yield from _edited(text[low[0] : high[0]], heard[low[1] : high[1]], low)
        return
    if level == len(RUNS):
        return
    run = RUNS[level]
    at = low
    for one, other in _chain(text, heard, low, high, run):
        if one < at[0] or other < at[1]:  # within the anchor before it, or crossing its end
            continue
        yield from _between(text, heard, at, (one, other), level + 1)
        yield from ((one + n, other + n) for n in range(run))
        at = one + run, other + run
    yield from _between(text, heard, at, high, level + 1)


def _chain(
    text: Sequence[str], heard: Sequence[str], low: Pair, high: Pair, run: int
) -> list[Pair]:
    """The longest chain of anchors that ascends in both lists."""
    once = [_once(words, first, last, run) for words, first, last in
            ((text, low[0], high[0]), (heard, low[1], high[1]))]  # fmt: skip
    there = sorted((at, once[1][words]) for words, at in once[0].items() if words in once[1])
    # Patience sorting: ends[n] is the smallest end of a chain of n + 1 anchors.
    ends: list[int] = []
    tops: list[int] = []  # index in `there` of the anchor at each end
    before: list[int] = []
    for index, (_, other) in enumerate(there):
        place = bisect_left(ends, other)
        before.append(tops[place - 1] if place else -1)
        ends[place : place + 1] = [other]
        tops[place : place + 1] = [index]
    found = []
    at = tops[-1] if tops else -1
    while at >= 0:
        found.append(there[at])
        at = before[at]
    return found[::-1]


def _once(words: Sequence[str], first: int, last: int, run: int) -> dict[tuple[str, ...], int]:
    """Runs of words that occur exactly once, and where."""
    found: dict[tuple[str, ...], int] = {}
    for at in range(first, last - run + 1):
        key = tuple(words[at : at + run])
        found[key] = -1 if key in found else at
    return {key: at for key, at in found.items() if at >= 0}


def _edited(text: Sequence[str], heard: Sequence[str], low: Pair) -> Iterator[Pair]:
    """Pairs of the fewest edits that turn one list into the other."""
    steps = Levenshtein.opcodes(text, heard)
    if len(text) * len(heard) > SMALL_CELLS:
        same = sum(step.src_end - step.src_start for step in steps if step.tag == "equal")
        if same < LEAST_AGREEING * min(len(text), len(heard)):
            return
    for step in steps:
        if step.tag in ("equal", "replace"):
            for n in range(step.src_end - step.src_start):
                yield low[0] + step.src_start + n, low[1] + step.dest_start + n


def alike(one: str, other: str) -> bool:
    """Whether two words are the same but for a few letters."""
    return one == other or Levenshtein.normalized_similarity(one, other) >= SIMILAR


def ascends(found: Sequence[Pair]) -> bool:
    """Whether pairs rise in both lists."""
    return all(a < c and b < d for (a, b), (c, d) in pairwise(found))
