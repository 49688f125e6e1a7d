"""Which clips of a corpus are copies: of the same samples, or of the same sound re-encoded.

Works on fingerprints (`fingerprinting.py`) alone, in O(n log n) time. They lie in temporary files;
some tens of bytes of each clip are in memory, and 0.6 GB whatever their number:

1. Clips with the same digest have the same samples; one of each such group goes on.
2. `candidates.py`: pairs that share a key and agree at a few places.
3. `compare.py`: pairs that are copies by a comparison of all their frames.
4. Connected pairs form a group, and its best clip is the original. A clip is a copy only if it
   compares well with the original itself; what does not is grouped again without those that do.

A clip contained in a longer one is not a copy of it, as its duration differs. The result does not
depend on the order of the rows, as long as they are ranked alike.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from tasks.base.arrays import Bools, Float64s, Int32s, Int64s
from tasks.filters._duplicates.candidates import Numbered, aligned, candidates
from tasks.filters._duplicates.compare import Comparison, copies
from tasks.filters._duplicates.fingerprints import StoredFingerprints
from tasks.filters._duplicates.table import Fingerprints, Pairs, Thresholds
from tasks.storage.sorted_keys import first_of_runs

MAX_ROUNDS = 32


class Copies(NamedTuple):
    """The rows that are copies, best first; of each the row of its original, and how they differ.

    `error`: bit error rate, 0 for the same samples. `drift`: by how much the copy leads or lags in
    one quarter more than in another, s.
    """

    row: Int32s
    original: Int32s
    error: Float64s
    drift: Float64s
    exact: Bools  # the same samples


def find_copies(prints: StoredFingerprints, best_first: Int64s, thresholds: Thresholds) -> Copies:
    """Which rows are copies of others. `best_first`: all rows; of several copies the first is the
    original. Rows without a fingerprint have none."""
    row = best_first[prints.first[best_first] >= 0].astype(np.int32)
    number = np.arange(len(row), dtype=np.int32)
    same = prints.same[row]
    first = np.empty(int(same.max(initial=-1)) + 1, np.int32)
    first[same[::-1]] = number[::-1]  # the first clip of the same samples
    first = first[same]
    of_row = np.full(len(prints), -1, np.int32)
    looked_at = (first == number) & prints.anchored[row]
    of_row[row[looked_at]] = number[looked_at]
    near = _find_originals(Numbered(prints, row), of_row, thresholds)
    del of_row, looked_at

    copies = np.flatnonzero(near.original >= 0)
    original = number.copy()
    original[near.clips[copies]] = near.clips[near.original[copies]]
    original = original[first]
    copy = np.flatnonzero(original != number)
    exact = same[original[copy]] == same[copy]
    error, drift = np.zeros((2, len(copy)))
    place = np.searchsorted(near.clips, first[copy[~exact]])
    error[~exact], drift[~exact] = near.error[place], near.drift[place]
    return Copies(row[copy], row[original[copy]], error, drift, exact)


class _Originals:
    """Of some clips, in order: the original of each as a place among them, or -1, and how the two
    differ."""

    def __init__(self, clips: Int64s) -> None:
        self.clips = clips
        self.original: Int64s = np.full(len(clips), -1, np.int64)
        self.error: Float64s = np.full(len(clips), np.nan)
        self.drift: Float64s = np.full(len(clips), np.nan)

    def assign(self, pairs: Pairs, compared: Comparison) -> None:
        self.original[pairs.other] = pairs.one
        self.error[pairs.other] = compared.error
        self.drift[pairs.other] = compared.drift


def _find_originals(clips: Numbered, of_row: Int32s, thresholds: Thresholds) -> _Originals:
    """Originals of the re-encoded copies among the clips that `of_row` numbers."""
    pairs, compared = Pairs.joined([]), Comparison.joined([])
    if thresholds.max_error > 0:
        pairs, compared = _compared(candidates(clips, of_row, thresholds), thresholds)
    linked = np.sort(np.concatenate([pairs.one, pairs.other]))
    originals = _Originals(linked[first_of_runs(linked)])
    seconds = clips.prints.milliseconds[clips.row[originals.clips]] / 1000
    pairs = _among(originals.clips, pairs)
    for _ in range(MAX_ROUNDS):
        if not len(pairs.one):
            return originals
        linked = np.unique(np.concatenate([pairs.one, pairs.other]))
        original = _best_of_group(pairs, linked, len(originals.clips))
        direct = np.flatnonzero(original[pairs.one] == pairs.one)
        originals.assign(pairs.take(direct), compared.take(direct))
        # Members that share no pair with the original are compared with it now.
        rest = linked[(original[linked] != linked) & (originals.original[linked] < 0)]
        padding = np.abs(seconds[rest] - seconds[original[rest]])
        rest = rest[padding <= thresholds.max_padding]
        indirect = aligned(
            clips, originals.clips[original[rest]], originals.clips[rest], thresholds
        )
        more, compared_too = _compared(indirect, thresholds)
        originals.assign(_among(originals.clips, more), compared_too)
        free = originals.original < 0
        free[original[linked]] = False
        keep = np.flatnonzero(free[pairs.one] & free[pairs.other])
        pairs, compared = pairs.take(keep), compared.take(keep)
    _assign_by_pairs(originals, pairs, compared)
    return originals


def _compared(
    parts: Iterable[tuple[Fingerprints, Int64s, Pairs]], thresholds: Thresholds
) -> tuple[Pairs, Comparison]:
    """The pairs that are copies, by the numbers of their clips, and how they compare."""
    kept: list[Pairs] = []
    compared: list[Comparison] = []
    for fingerprints, clips, pairs in parts:
        good, comparison = copies(fingerprints, pairs, thresholds)
        kept.append(Pairs(clips[good.one], clips[good.other], good.offset))
        compared.append(comparison)
    return Pairs.joined(kept), Comparison.joined(compared)


def _among(clips: Int64s, pairs: Pairs) -> Pairs:
    """Pairs by their places among `clips`."""
    one, other = (np.searchsorted(clips, side) for side in (pairs.one, pairs.other))
    return Pairs(one, other, pairs.offset)


def _best_of_group(pairs: Pairs, linked: Int64s, count: int) -> Int64s:
    """The best clip of each clip's group, which is the one with the smallest number."""
    graph = coo_array((np.ones(len(pairs.one), bool), (pairs.one, pairs.other)), (count, count))
    _, group = connected_components(graph, directed=False)
    best = np.full(count, count, np.int64)
    np.minimum.at(best, group[linked], linked)
    of_group: Int64s = best[group]
    return of_group


def _assign_by_pairs(assigned: _Originals, pairs: Pairs, compared: Comparison) -> None:
    """The rest of a very long chain of copies: decided pair by pair, best first."""
    originals: set[int] = set()
    for pair in np.lexsort((pairs.other, pairs.one)):
        one, other = int(pairs.one[pair]), int(pairs.other[pair])
        if assigned.original[one] < 0 and assigned.original[other] < 0 and other not in originals:
            originals.add(one)
            only = np.array([pair])
            assigned.assign(pairs.take(only), compared.take(only))
