"""Aligns the words of a text with the words that were heard; either list may hold long stretches
that the other lacks.

The longest common subsequence pairs equal words; between those, the fewest edits (Levenshtein) pair
misheard words. Time grows with the product of their numbers, 64 pairs at a time, and memory is a
bit a pair up to `LCS_CELLS`; above, the edits do both, with memory for the words only. If even that
is too much, runs of words that occur once in both lists are anchors: the longest chain of them that
ascends in both is kept, and the rest is aligned between them. A long stretch in which little agrees
is left unaligned.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from rapidfuzz.distance import LCSseq, Levenshtein

RUNS = (5, 3, 2)  # words of an anchor
MOST_CELLS = 15_000_000_000  # of a table of edits: 100,000 by 100,000 words in 2 s
LCS_CELLS = 1_000_000_000  # of a longest common subsequence: 125 MB
SMALL_CELLS = 4_000_000  # above, a fifth of the words must agree
LEAST_AGREEING = 0.2
SIMILAR = 0.75  # share of its letters that a word misheard, or spelt otherwise, has in common

Pair = tuple[int, int]


def pairs(text: Sequence[str], heard: Sequence[str]) -> list[Pair]:
    """(index in `text`, index in `heard`) of matching words, ascending in both: equal ones, and
    those that an edit replaces."""
    edited = list(_between(text, heard, (0, 0), (len(text), len(heard)), 0))
    gathered = _gathered(text, heard, edited)
    return [(one + n, other + n) for one, other, size in gathered for n in range(size)]


def _gathered(
    text: Sequence[str], heard: Sequence[str], matched: Sequence[Pair]
) -> list[tuple[int, int, int]]:
    """Runs of pairs, (index, index, length), in which words that were heard more than once are
    those beside the run that goes on with them: there is more than one longest subsequence."""
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
    begin = low
    for one, other in _chain(text, heard, low, high, run):
        if one < begin[0] or other < begin[1]:  # within the anchor before it, or crossing its end
            continue
        yield from _between(text, heard, begin, (one, other), level + 1)
        yield from ((one + n, other + n) for n in range(run))
        begin = one + run, other + run
    yield from _between(text, heard, begin, high, level + 1)


def _chain(
    text: Sequence[str], heard: Sequence[str], low: Pair, high: Pair, run: int
) -> list[Pair]:
    """The longest chain of anchors that ascends in both lists."""
    of_text = _once(text, low[0], high[0], run)
    of_heard = _once(heard, low[1], high[1], run)
    anchors = sorted(
        (index_in_text, of_heard[words])
        for words, index_in_text in of_text.items()
        if words in of_heard
    )
    # Patience sorting: ends[n] is the smallest end of a chain of n + 1 anchors.
    ends: list[int] = []
    tops: list[int] = []  # index in `anchors` of the anchor at each end
    before: list[int] = []
    for index, (_, other) in enumerate(anchors):
        place = bisect_left(ends, other)
        before.append(tops[place - 1] if place else -1)
        ends[place : place + 1] = [other]
        tops[place : place + 1] = [index]
    chain = []
    index_in_text = tops[-1] if tops else -1
    while index_in_text >= 0:
        chain.append(anchors[index_in_text])
        index_in_text = before[index_in_text]
    return chain[::-1]


def _once(words: Sequence[str], first: int, last: int, run: int) -> dict[tuple[str, ...], int]:
    """Runs of words that occur exactly once, and where."""
    places: dict[tuple[str, ...], int] = {}
    for start in range(first, last - run + 1):
        key = tuple(words[start : start + run])
        places[key] = -1 if key in places else start
    return {key: start for key, start in places.items() if start >= 0}


def _edited(text: Sequence[str], heard: Sequence[str], low: Pair) -> Iterator[Pair]:
    """The most equal words in order; between them, pairs of the fewest edits."""
    begin = (0, 0)
    same = _same(text, heard)
    if len(text) * len(heard) > SMALL_CELLS:
        count = sum(length for _, _, length in same)
        if count < LEAST_AGREEING * min(len(text), len(heard)):
            return
    for one, other, length in [*same, (len(text), len(heard), 0)]:
        if (one - begin[0]) * (other - begin[1]) <= SMALL_CELLS:
            gap = text[begin[0] : one], heard[begin[1] : other]
            for step in Levenshtein.opcodes(*gap):
                for n in range(step.src_end - step.src_start if step.tag == "replace" else 0):
                    yield (
                        low[0] + begin[0] + step.src_start + n,
                        low[1] + begin[1] + step.dest_start + n,
                    )
        yield from ((low[0] + one + n, low[1] + other + n) for n in range(length))
        begin = one + length, other + length


def _same(text: Sequence[str], heard: Sequence[str]) -> list[tuple[int, int, int]]:
    """Runs of equal words, (index, index, length), ascending. Edits alone would set a sentence that
    is only in the text against one that is only heard, over one that is in both."""
    by = LCSseq if len(text) * len(heard) <= LCS_CELLS else Levenshtein
    steps = by.opcodes(text, heard)
    return [(s.src_start, s.dest_start, s.src_end - s.src_start) for s in steps if s.tag == "equal"]


def alike(one: str, other: str) -> bool:
    """Whether two words differ in a few letters at most."""
    return one == other or Levenshtein.normalized_similarity(one, other) >= SIMILAR
