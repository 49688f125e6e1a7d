"""Which clips of a corpus are copies: of the same samples, or of the same sound re-encoded.

Works on fingerprints (`_fingerprint.py`) alone, in O(n log n) time and O(n) memory:

1. Clips with the same digest have the same samples; one of each such group goes on.
2. `_duplicates_candidates.py`: pairs that share a key and agree at a few places.
3. `_duplicates_compare.py`: pairs that are copies by a comparison of all their frames.
4. `_duplicates_groups.py`: groups of copies, and the original of each.

A clip contained in a longer one is not a copy of it, as its duration differs. The result does not
depend on the order of the rows, as long as ids differ.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.filters._duplicates_groups import find_originals
from tasks.filters._duplicates_table import (
    Bools,
    Ints,
    Reals,
    Thresholds,
    first_of_runs,
    numbers,
    read,
)


class Copies(NamedTuple):
    """One value per row: the row of its original or -1, and how the two differ.

    `error`: bit error rate, 0 for the same samples. `drift`: by how much the copy leads or lags in
    one quarter more than in another, s. Both are NaN without an original.
    """

    original: Ints
    error: Reals
    drift: Reals
    exact: Bools  # the same samples


def find_copies(
    fingerprints: pa.Array | pa.ChunkedArray,
    ids: pa.Array | pa.ChunkedArray,
    rank: Reals,
    published: Bools,
    thresholds: Thresholds,
) -> Copies:
    """The original of each row that is a copy.

    Of several copies the original is the published one, else the highest in rank, else the one
    with the smallest id. Rows without a fingerprint have no copies. ValueError if a fingerprint is
    damaged or of another version.
    """
    blob = _one_array(fingerprints)
    order = _best_first(blob, ids, rank, published)
    fingerprints = read(blob, order)
    original_of = _first_with_same_samples(fingerprints.digest)
    unique = np.flatnonzero(original_of == numbers(original_of))
    near = find_originals(fingerprints, unique[fingerprints.anchors[unique] > 0], thresholds)

    original = np.where(near.original[original_of] >= 0, near.original[original_of], original_of)
    same = (fingerprints.digest[original] == fingerprints.digest).all(axis=1)
    is_copy = original != numbers(original_of)
    rows = order[is_copy]
    count = len(blob)
    found = Copies(
        np.full(count, -1, np.int64),
        np.full(count, np.nan),
        np.full(count, np.nan),
        np.zeros(count, bool),
    )
    found.original[rows] = order[original[is_copy]]
    found.error[rows] = np.where(same, 0.0, near.error[original_of])[is_copy]
    found.drift[rows] = np.where(same, 0.0, near.drift[original_of])[is_copy]
    found.exact[rows] = same[is_copy]
    return found


def _one_array(fingerprints: pa.Array | pa.ChunkedArray) -> pa.LargeBinaryArray:
    whole = fingerprints.cast(pa.large_binary())
    return whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole


def _best_first(
    blob: pa.LargeBinaryArray, ids: pa.Array | pa.ChunkedArray, rank: Reals, published: Bools
) -> Ints:
    """The rows that have a fingerprint, best first."""
    present = blob.is_valid()
    table = pa.table({"late": ~published, "rank": -rank, "id": ids})
    keys = [(name, "ascending") for name in ("late", "rank", "id")]
    order = pc.sort_indices(table, keys).to_numpy().astype(np.int64)
    rows: Ints = order[present.to_numpy(zero_copy_only=False)[order]]
    return rows


def _first_with_same_samples(digest: NDArray[np.uint64]) -> Ints:
    """For each clip the first one with the same digest."""
    order = np.lexsort((digest[:, 1], digest[:, 0]))  # stable: the first stays first
    begins = first_of_runs(digest[order, 0], digest[order, 1])
    original_of = np.empty(len(order), np.int64)
    original_of[order] = order[np.flatnonzero(begins)[np.cumsum(begins) - 1]]
    return original_of
