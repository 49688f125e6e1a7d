"""Which clips of a corpus are copies: of the same samples, or of the same sound re-encoded.

Works on fingerprints (`_fingerprint.py`) alone, in O(n log n) time. They lie in temporary files;
some tens of bytes of each clip are in memory, and 0.6 GB whatever their number:

1. Clips with the same digest have the same samples; one of each such group goes on.
2. `_duplicates_candidates.py`: pairs that share a key and agree at a few places.
3. `_duplicates_compare.py`: pairs that are copies by a comparison of all their frames.
4. `_duplicates_groups.py`: groups of copies, and the original of each.

A clip contained in a longer one is not a copy of it, as its duration differs. The result does not
depend on the order of the rows, as long as they are ranked alike.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tasks.filters._duplicates_candidates import Numbered
from tasks.filters._duplicates_fingerprints import Rows, StoredFingerprints
from tasks.filters._duplicates_groups import find_originals
from tasks.filters._duplicates_table import Bools, Ints, Reals, Thresholds


class Copies(NamedTuple):
    """The rows that are copies, best first; of each the row of its original, and how they differ.

    `error`: bit error rate, 0 for the same samples. `drift`: by how much the copy leads or lags in
    one quarter more than in another, s.
    """

    row: Rows
    original: Rows
    error: Reals
    drift: Reals
    exact: Bools  # the same samples


def find_copies(prints: StoredFingerprints, best_first: Ints, thresholds: Thresholds) -> Copies:
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
    near = find_originals(Numbered(prints, row), of_row, thresholds)
    del of_row, looked_at

    told = np.flatnonzero(near.original >= 0)
    original = number.copy()
    original[near.clips[told]] = near.clips[near.original[told]]
    original = original[first]
    found = np.flatnonzero(original != number)
    exact = same[original[found]] == same[found]
    error, drift = np.zeros((2, len(found)))
    at = np.searchsorted(near.clips, first[found[~exact]])
    error[~exact], drift[~exact] = near.error[at], near.drift[at]
    return Copies(row[found], row[original[found]], error, drift, exact)
