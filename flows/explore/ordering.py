"""A page of items by a column, without sorting all of them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Places = NDArray[np.int32]  # items, ascending
#: What a column is sorted by, of every item: float64, NaN if it is null, or of a text int32 its
#: place among all texts, -1 if it is null.
Keys = NDArray[Any]


def page(members: Places, keys: Keys, down: bool, start: int, limit: int) -> Places:
    """Items `start` to `start + limit` of `members` by `keys`, the largest first if `down`; items
    without a value come last, equal ones in their order. In time proportional to the members."""
    values = keys if len(members) == len(keys) else keys[members]
    there = values == values if values.dtype.kind == "f" else values >= 0
    known, count = members[there], int(np.count_nonzero(there))
    values = -values[there] if down else values[there]
    end = min(start + limit, count)
    found = known[_window(values, start, end)] if start < end else known[:0]
    rest = members[~there][max(start - count, 0) : max(start + limit - count, 0)]
    return np.concatenate([found, rest])


def _window(values: Keys, start: int, end: int) -> NDArray[np.int64]:
    """Indices of the items that a stable sort would put at `start` to `end`, with `start < end`."""
    parted = np.partition(values, (start, end - 1))
    low, high = parted[start], parted[end - 1]
    before = int(np.count_nonzero(values < low))
    least = np.flatnonzero(values == low)[start - before :]
    if low == high:
        return least[: end - start]
    between = np.flatnonzero((values > low) & (values < high))
    between = between[np.argsort(values[between], kind="stable")]
    return np.concatenate([least, between, np.flatnonzero(values == high)])[: end - start]
