"""Arrays of a version in memory: the items that a condition chooses, and the sort keys of each
column, which give a page of items without sorting all of them.

A condition is evaluated on the table once, into row numbers; pages, sorts and counts use those.
Numeric columns are read on first use. Sorting by a text needs the rank of every text, which a
background thread computes (`ahead`); until it is done, DuckDB sorts.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...tasks.base.arrays import Float64s, Int32s, Int64s
from ...tasks.base.json_types import JsonObject
from ...tasks.storage.queries import identifier
from .loading import Column, SqlValue

Places = Int32s  # items, ascending
#: Sort keys of a column, by item: of numbers float64, NaN for null; of texts int32, the rank among
#: all texts, -1 for null.
Keys = Int32s | Float64s
Number = TypeVar("Number", bound=np.generic)

HELD = 400_000_000  # bytes of a version's arrays; above, the least recently used are dropped
MOST = 500  # rows in a response


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
        if (members := self._get(key)) is None:
            items = self.arrays(f"SELECT item FROM {self.name} WHERE {sql}", values)["item"]
            members = self._put(key, np.sort(np.asarray(items, dtype=np.int32)))
        return members

    def numbers(self, column: str) -> Float64s:
        """A column of numbers by item, NaN for null; float64 [items]."""
        if (numbers := self._get(("keys", column))) is None:
            name = identifier(column)
            columns = self.arrays(f"SELECT item, {name}::DOUBLE AS v FROM {self.name}")
            values = np.full(len(columns["item"]), np.nan)
            values[columns["item"]] = np.ma.filled(columns["v"], np.nan)
            numbers = self._put(("keys", column), values)
        return numbers

    def keys(self, column: str) -> Keys | None:
        """The sort keys of a column; None for a text column without ranks yet."""
        if self.columns[column].kind == "number":
            return self.numbers(column)
        return self._get(("keys", column))

    def rank(self, column: str) -> Keys:
        """Compute the ranks of a column of texts; int32 [items], -1 for null."""
        name = identifier(column)
        columns = self.arrays(
            f"SELECT item, {name} IS NULL AS lacks, "
            f"{name} IS DISTINCT FROM lag({name}) OVER (ORDER BY {name} NULLS LAST) AS new "
            f"FROM {self.name} ORDER BY {name} NULLS LAST"
        )
        places = np.empty(len(columns["item"]), np.int32)
        new = np.ma.filled(columns["new"], True)
        ranks = np.cumsum(new, dtype=np.int32)
        places[columns["item"]] = np.where(
            np.ma.filled(columns["lacks"], True), np.int32(-1), ranks
        )
        return self._put(("keys", column), places)

    def texts(self) -> list[str]:
        """Columns whose ranks are computed ahead."""
        return [name for name, column in self.columns.items() if column.kind == "text"]

    def _get(self, key: Hashable) -> NDArray[Any] | None:
        with self._lock:
            if key in self._held:
                self._held.move_to_end(key)
            return self._held.get(key)

    def _put(self, key: Hashable, values: NDArray[Number]) -> NDArray[Number]:
        with self._lock:
            self._held[key] = values
            size = sum(array.nbytes for array in self._held.values())
            while size > HELD and len(self._held) > 1:
                size -= self._held.popitem(last=False)[1].nbytes
        return values


def page(members: Places, keys: Keys, down: bool, start: int, limit: int) -> Places:
    """Items `start` to `start + limit` of `members` by `keys`, the largest first if `down`; items
    without a value come last, equal ones in their order. In time proportional to the members."""
    values = keys if len(members) == len(keys) else keys[members]
    has_value = values == values if values.dtype.kind == "f" else values >= 0
    ranked, count = members[has_value], int(np.count_nonzero(has_value))
    values = -values[has_value] if down else values[has_value]
    end = min(start + limit, count)
    first = ranked[_window(values, start, end)] if start < end else ranked[:0]
    rest = members[~has_value][max(start - count, 0) : max(start + limit - count, 0)]
    return np.concatenate([first, rest])


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


@dataclass(frozen=True)
class Vocabulary:
    """`ids`: each word of each text, in the order of items, int32 [words of all], in a file.
    `ends`: where an item's words end in it, int64 [items]. `words`: the different ones, sorted, and
    `number`: their numbers among `ids`."""

    ids: Int32s
    ends: Int64s
    words: pa.Array
    number: Int64s

    def counted(self, members: Places, what: str, rare: bool) -> JsonObject:
        """The most frequent words or characters of some items, or the rarest; how many there are in
        all (`whole`), how many different ones (`kinds`), and how many that occur once (`once`)."""
        counts = self._counts(members)
        if what == "characters":
            counts = self._characters(counts)
        occurring = np.flatnonzero(counts).astype(np.int32)
        name = chr if what == "characters" else lambda number: self.words[number].as_py()
        chosen = page(occurring, counts.astype(np.float64), not rare, 0, MOST)
        return {
            "what": what,
            "whole": int(counts.sum()),
            "kinds": len(occurring),
            "once": int(np.count_nonzero(counts == 1)),
            "rows": [
                {"name": name(int(number)), "count": int(counts[number])} for number in chosen
            ],
        }

    def _counts(self, members: Places) -> Int64s:
        if len(members) == len(self.ends):
            ids = self.ids
        else:
            chosen = np.zeros(len(self.ends), bool)
            chosen[members] = True
            ids = self.ids[np.repeat(chosen, np.diff(self.ends, prepend=0))]
        return np.bincount(ids, minlength=len(self.words))[self.number]

    def _characters(self, counts: Int64s) -> Int64s:
        """Counts of characters, by code point; `counts`: how often each word occurs."""
        units, lengths = self._spelled
        weights = np.repeat(counts, lengths).astype(np.float64)  # exact up to 2^53
        return np.bincount(units, weights).astype(np.int64)

    @cached_property
    def _spelled(self) -> tuple[NDArray[np.uint32], Int64s]:
        """Code points of all words, and how many each has."""
        units = np.frombuffer("".join(self.words.to_pylist()).encode("utf-32-le"), np.uint32)
        return units, np.asarray(pc.utf8_length(self.words)).astype(np.int64)


def vocabulary_of(batches: Iterable[pa.Array], path: Path) -> Vocabulary:
    """The vocabulary of texts, given in batches in the order of items; the numbers are written to
    the file `path`. Words are separated by spaces."""
    number_of: dict[str, int] = {}
    sizes: list[Int64s] = []
    with path.open("wb") as file:
        for texts in batches:
            parts = pc.split_pattern(pc.fill_null(texts, ""), " ")
            parents, flat = pc.list_parent_indices(parts), pc.list_flatten(parts)
            full = pc.not_equal(flat, "")
            coded = flat.filter(full).dictionary_encode()
            numbers = [
                number_of.setdefault(word, len(number_of)) for word in coded.dictionary.to_pylist()
            ]
            ids = np.array(numbers, np.int32)[np.asarray(coded.indices)]
            file.write(ids.tobytes())
            sizes.append(np.bincount(np.asarray(parents.filter(full)), minlength=len(texts)))
    words = pa.array(list(number_of), pa.string())
    number = pc.sort_indices(words)
    return Vocabulary(
        np.memmap(path, np.int32, "r") if number_of else np.zeros(0, np.int32),
        np.cumsum(np.concatenate(sizes), dtype=np.int64) if sizes else np.zeros(0, np.int64),
        words.take(number),
        np.asarray(number).astype(np.int64),
    )
