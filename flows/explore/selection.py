"""What is kept in memory of a version: the items that a condition chooses, and the sort keys of
each column, by which a page of items is found without sorting all of them.

A condition is evaluated on the table once, into row numbers; pages, sorts and counts use those.
Numeric columns are read on first use. Sorting by a text needs the rank of every text, which a
background thread computes (`ahead`); until it is done, DuckDB sorts.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from flows.explore.loading import Column, SqlValue
from flows.explore.sql import identifier
from tasks.base.arrays import Float64s, Int32s, Int64s

Places = Int32s  # items, ascending
#: What a column is sorted by, of every item: float64, NaN if it is null, or of a text int32 its
#: place among all texts, -1 if it is null.
Keys = Int32s | Float64s
Number = TypeVar("Number", bound=np.generic)

HELD = 400_000_000  # bytes of a version's arrays; beyond it the least recently used are dropped


@dataclass
class Selection:
    """Arrays over one version's table. `arrays`: `Corpus.arrays`."""

    arrays: Callable[..., Mapping[str, Any]]
    name: str
    columns: Mapping[str, Column]
    _held: OrderedDict[Hashable, NDArray[Any]] = field(default_factory=OrderedDict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def members(self, sql: str, values: Sequence[SqlValue]) -> Places:
        """The items that a condition chooses, ascending; int32."""
        key = ("members", sql, tuple(values))
        if (known := self._get(key)) is None:
            found = self.arrays(f"SELECT item FROM {self.name} WHERE {sql}", values)["item"]
            known = self._put(key, np.sort(np.asarray(found, dtype=np.int32)))
        return known

    def numbers(self, column: str) -> Float64s:
        """A column of numbers by item, NaN if it is null; float64 [items]."""
        if (known := self._get(("keys", column))) is None:
            name = identifier(column)
            found = self.arrays(f"SELECT item, {name}::DOUBLE AS v FROM {self.name}")
            values = np.full(len(found["item"]), np.nan)
            values[found["item"]] = np.ma.filled(found["v"], np.nan)
            known = self._put(("keys", column), values)
        return known

    def keys(self, column: str) -> Keys | None:
        """The sort keys of a column; None for a text column whose ranks are not known yet."""
        if self.columns[column].kind == "number":
            return self.numbers(column)
        return self._get(("keys", column))

    def rank(self, column: str) -> Keys:
        """Find the places of a column of texts; int32 [items], -1 if it is null."""
        name = identifier(column)
        found = self.arrays(
            f"SELECT item, {name} IS NULL AS lacks, "
            f"{name} IS DISTINCT FROM lag({name}) OVER (ORDER BY {name} NULLS LAST) AS new "
            f"FROM {self.name} ORDER BY {name} NULLS LAST"
        )
        places = np.empty(len(found["item"]), np.int32)
        new = np.ma.filled(found["new"], True)
        ranks = np.cumsum(new, dtype=np.int32)
        places[found["item"]] = np.where(np.ma.filled(found["lacks"], True), np.int32(-1), ranks)
        return self._put(("keys", column), places)

    def texts(self) -> list[str]:
        """Columns whose places are worth finding ahead."""
        return [name for name, column in self.columns.items() if column.kind == "text"]

    def _get(self, key: Hashable) -> NDArray[Any] | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def _put(self, key: Hashable, found: NDArray[Number]) -> NDArray[Number]:
        with self._lock:
            self._held[key] = found
            size = sum(each.nbytes for each in self._held.values())
            while size > HELD and len(self._held) > 1:
                size -= self._held.popitem(last=False)[1].nbytes
        return found


def page(members: Places, keys: Keys, down: bool, start: int, limit: int) -> Places:
    """Items `start` to `start + limit` of `members` by `keys`, the largest first if `down`; items
    without a value come last, equal ones in their order. In time proportional to the members."""
    values = keys if len(members) == len(keys) else keys[members]
    has_value = values == values if values.dtype.kind == "f" else values >= 0
    known, count = members[has_value], int(np.count_nonzero(has_value))
    values = -values[has_value] if down else values[has_value]
    end = min(start + limit, count)
    found = known[_window(values, start, end)] if start < end else known[:0]
    rest = members[~has_value][max(start - count, 0) : max(start + limit - count, 0)]
    return np.concatenate([found, rest])


def _window(values: Keys, start: int, end: int) -> Int64s:
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
