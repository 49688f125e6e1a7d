"""Groups of copies: connected pairs form a group, and its best clip is the original.

A clip is a copy only if it compares well with the original itself. What does not is grouped again
without the clips that do.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tasks.filters._duplicates_candidates import Numbered, aligned, candidates
from tasks.filters._duplicates_compare import Comparison, copies
from tasks.filters._duplicates_table import Fingerprints, Ints, Pairs, Reals, Thresholds
from tasks.storage.sorted_keys import first_of_runs

MAX_ROUNDS = 32


class Originals:
    """Of some clips, in order: the original of each as a place among them, or -1, and how the two
    differ."""

    def __init__(self, clips: Ints) -> None:
        self.clips = clips
        self.original: Ints = np.full(len(clips), -1, np.int64)
        self.error: Reals = np.full(len(clips), np.nan)
        self.drift: Reals = np.full(len(clips), np.nan)

    def assign(self, pairs: Pairs, compared: Comparison) -> None:
        self.original[pairs.other] = pairs.one
        self.error[pairs.other] = compared.error
        self.drift[pairs.other] = compared.drift


def find_originals(clips: Numbered, of_row: NDArray[np.int32], thresholds: Thresholds) -> Originals:
    """Originals of the re-encoded copies among the clips that `of_row` numbers."""
    pairs, compared = Pairs.joined([]), Comparison.joined([])
    if thresholds.max_error > 0:
        pairs, compared = _compared(candidates(clips, of_row, thresholds), thresholds)
    linked = np.sort(np.concatenate([pairs.one, pairs.other]))
    found = Originals(linked[first_of_runs(linked)])
    seconds = clips.prints.milliseconds[clips.row[found.clips]] / 1000
    pairs = _among(found.clips, pairs)
    for _ in range(MAX_ROUNDS):
        if not len(pairs.one):
            return found
        linked = np.unique(np.concatenate([pairs.one, pairs.other]))
        original = _best_of_group(pairs, linked, len(found.clips))
        direct = np.flatnonzero(original[pairs.one] == pairs.one)
        found.assign(pairs.take(direct), compared.take(direct))
        # Members that share no pair with the original are compared with it now.
        rest = linked[(original[linked] != linked) & (found.original[linked] < 0)]
        padding = np.abs(seconds[rest] - seconds[original[rest]])
        rest = rest[padding <= thresholds.max_padding]
        indirect = aligned(clips, found.clips[original[rest]], found.clips[rest], thresholds)
        more, compared_too = _compared(indirect, thresholds)
        found.assign(_among(found.clips, more), compared_too)
        free = found.original < 0
        free[original[linked]] = False
        keep = np.flatnonzero(free[pairs.one] & free[pairs.other])
        pairs, compared = pairs.take(keep), compared.take(keep)
    _assign_by_pairs(found, pairs, compared)
    return found


def _compared(
    parts: Iterable[tuple[Fingerprints, Ints, Pairs]], thresholds: Thresholds
) -> tuple[Pairs, Comparison]:
    """The pairs that are copies, by the numbers of their clips, and how they compare."""
    kept: list[Pairs] = []
    compared: list[Comparison] = []
    for fingerprints, clips, pairs in parts:
        good, comparison = copies(fingerprints, pairs, thresholds)
        kept.append(Pairs(clips[good.one], clips[good.other], good.offset))
        compared.append(comparison)
    return Pairs.joined(kept), Comparison.joined(compared)


def _among(clips: Ints, pairs: Pairs) -> Pairs:
    """Pairs by their places among `clips`."""
    one, other = (np.searchsorted(clips, side) for side in (pairs.one, pairs.other))
    return Pairs(one, other, pairs.offset)


def _best_of_group(pairs: Pairs, linked: Ints, count: int) -> Ints:
    """The best clip of each clip's group, which is the one with the smallest number."""
    graph = coo_array((np.ones(len(pairs.one), bool), (pairs.one, pairs.other)), (count, count))
    _, group = connected_components(graph, directed=False)
    best = np.full(count, count, np.int64)
    np.minimum.at(best, group[linked], linked)
    of_group: Ints = best[group]
    return of_group


def _assign_by_pairs(found: Originals, pairs: Pairs, compared: Comparison) -> None:
    """The rest of a very long chain of copies: decided pair by pair, best first."""
    originals: set[int] = set()
    for at in np.lexsort((pairs.other, pairs.one)):
        one, other = int(pairs.one[at]), int(pairs.other[at])
        if found.original[one] < 0 and found.original[other] < 0 and other not in originals:
            originals.add(one)
            only = np.array([at])
            found.assign(pairs.take(only), compared.take(only))
