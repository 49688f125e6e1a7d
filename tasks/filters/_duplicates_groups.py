"""Groups of copies: connected pairs form a group, and its best clip is the original.

A clip is a copy only if it compares well with the original itself. What does not is grouped again
without the clips that do.
"""

from __future__ import annotations

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tasks.filters._duplicates_candidates import aligned, candidates
from tasks.filters._duplicates_compare import Comparison, copies
from tasks.filters._duplicates_table import Fingerprints, Ints, Pairs, Reals, Thresholds

MAX_ROUNDS = 32


class Originals:
    """For each clip its original or -1, and how the two differ."""

    def __init__(self, count: int) -> None:
        self.original: Ints = np.full(count, -1, np.int64)
        self.error: Reals = np.full(count, np.nan)
        self.drift: Reals = np.full(count, np.nan)

    def assign(self, pairs: Pairs, compared: Comparison) -> None:
        self.original[pairs.other] = pairs.one
        self.error[pairs.other] = compared.error
        self.drift[pairs.other] = compared.drift


def find_originals(fingerprints: Fingerprints, clips: Ints, thresholds: Thresholds) -> Originals:
    """Originals of the re-encoded copies among `clips`."""
    count = len(fingerprints.frames)
    found = Originals(count)
    if thresholds.max_error == 0 or len(clips) < 2:
        return found
    pairs, compared = copies(fingerprints, candidates(fingerprints, clips, thresholds), thresholds)
    for _ in range(MAX_ROUNDS):
        if not len(pairs.one):
            return found
        linked = np.unique(np.concatenate([pairs.one, pairs.other]))
        original = _best_of_group(pairs, linked, count)
        direct = np.flatnonzero(original[pairs.one] == pairs.one)
        found.assign(pairs.take(direct), compared.take(direct))
        # Members that share no pair with the original are compared with it now.
        rest = linked[(original[linked] != linked) & (found.original[linked] < 0)]
        padding = np.abs(fingerprints.seconds[rest] - fingerprints.seconds[original[rest]])
        rest = rest[padding <= thresholds.max_padding]
        indirect = aligned(fingerprints, original[rest], rest, thresholds)
        found.assign(*copies(fingerprints, indirect, thresholds))
        free = found.original < 0
        free[original[linked]] = False
        keep = np.flatnonzero(free[pairs.one] & free[pairs.other])
        pairs, compared = pairs.take(keep), compared.take(keep)
    _assign_by_pairs(found, pairs, compared)
    return found


def _best_of_group(pairs: Pairs, linked: Ints, count: int) -> Ints:
    """The best clip of each clip's group, which is the one with the smallest number."""
    graph = coo_array((np.ones(len(pairs.one), bool), (pairs.one, pairs.other)), (count, count))
    _, group = connected_components(graph, directed=False)
    best = np.full(count, count, np.int64)
    np.minimum.at(best, group[linked], linked)
    of_group: Ints = best[group]
    return of_group


def _assign_by_pairs(found: Originals, pairs: Pairs, compared: Comparison) -> None:
    """What a very long chain of copies leaves over: decided pair by pair, best first."""
    originals: set[int] = set()
    for at in np.lexsort((pairs.other, pairs.one)):
        one, other = int(pairs.one[at]), int(pairs.other[at])
        if found.original[one] < 0 and found.original[other] < 0 and other not in originals:
            originals.add(one)
            only = np.array([at])
            found.assign(pairs.take(only), compared.take(only))
