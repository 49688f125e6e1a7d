"""Looks up many keys among sorted ones at once; and sorts more rows than fit in memory."""

from __future__ import annotations

import hashlib
import io
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ..base.arrays import Bools, FixedBytes, Int64s, UInt64s
from . import long_columns

Key = TypeVar("Key", bound=np.generic)
Value = TypeVar("Value", bound=np.signedinteger)

BATCH = 1 << 20  # keys per lookup
CACHED = 1 << 16  # number of sorted keys up to which lookups are fast in any order

AT_ONCE = 1 << 18  # rows, about


def index_in(ordered: NDArray[Key], wanted: NDArray[Key]) -> Int64s:
    """The index of each wanted key in `ordered`; -1 if it is missing."""
    if not len(ordered):
        return np.full(len(wanted), -1, np.int64)
    index = np.searchsorted(ordered, wanted)
    index[index == len(ordered)] = 0
    return np.where(ordered[index] == wanted, index, -1)


def value_of(ordered: NDArray[Key], values: NDArray[Value], wanted: NDArray[Key]) -> NDArray[Value]:
    """The value of each wanted key (`values` belong to `ordered`); -1 if it is missing."""
    index = index_in(ordered, wanted)
    result = np.full(len(wanted), -1, values.dtype)
    result[index >= 0] = values[index[index >= 0]]
    return result


def places_of(high: UInt64s, low: UInt64s, among_high: UInt64s, among_low: UInt64s) -> Int64s:
    """`index_in` for keys in two columns."""
    result = np.full(len(high), -1, np.int64)
    if not len(among_high):
        return result
    for low_end in range(0, len(high), BATCH):
        batch = slice(low_end, low_end + BATCH)
        place = np.minimum(_searched(among_high, high[batch]), len(among_high) - 1)
        good = (among_high[place] == high[batch]) & (among_low[place] == low[batch])
        result[batch] = np.where(good, place, -1)
    return result


def _searched(among: UInt64s, keys: UInt64s) -> Int64s:
    """`np.searchsorted`, with keys looked up in sorted order so that memory access is
    sequential."""
    if len(among) < CACHED:
        return np.searchsorted(among, keys)
    order = np.argsort(keys)
    places = np.empty(len(keys), np.int64)
    places[order] = np.searchsorted(among, keys[order])
    return places


def first_of_runs(*columns: NDArray[np.generic]) -> Bools:
    """For sorted columns: whether each row differs from the previous one."""
    first = np.ones(len(columns[0]), bool)
    first[1:] = False
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def hashes(names: Iterable[str], head: str = "") -> UInt64s:
    """The first sixteen bytes of the sha256 of `head` followed by each name; uint64 [names, 2]."""
    start = hashlib.sha256(head.encode())
    digests = bytearray()
    for name in names:
        state = start.copy()
        state.update(name.encode())
        digests += state.digest()[:16]
    return np.frombuffer(bytes(digests), ">u8").astype(np.uint64).reshape(-1, 2)


def bounds(sample: list[str], count: int) -> FixedBytes:
    """Range bounds for `Sorted`. `sample`: an even sample of the names; `count`: the approximate
    number of rows."""
    ranges = min(-(-count // AT_ONCE), len(sample) + 1)
    names = sorted(name.encode() for name in sample)
    return np.array(
        [names[number * len(sample) // ranges] for number in range(1, ranges)], np.bytes_
    )


class Sorted(ExitStack):
    """Sorts rows, added in chunks, by some columns; the first must hold names or numbers.

    Rows go to temporary files in `folder` by ranges of the first column, and each range is sorted
    by itself: memory holds one range and `most` rows. The ranges do not affect the result. A single
    range stays in memory, where it is sorted anyway.
    """

    def __init__(
        self,
        schema: pa.Schema,
        by: Sequence[str],
        bounds: NDArray[np.generic],
        most: int = AT_ONCE,
        folder: Path | None = None,
    ) -> None:
        super().__init__()
        self._schema, self._by, self._bounds, self._most = schema, list(by), bounds, most
        self._files: list[IO[bytes]] = []
        self._writers: list[pa.RecordBatchStreamWriter] = []
        for _ in range(len(bounds) + 1):
            target: IO[bytes] = io.BytesIO()
            if len(bounds):
                target = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115
            file = self.enter_context(target)
            self._files.append(file)
            self._writers.append(self.enter_context(pa.ipc.new_stream(file, schema)))
        self._waiting = [schema.empty_table()]
        self._rows = 0

    def add(self, rows: pa.Table) -> None:
        """Add rows; equal rows keep the order in which they were added."""
        self._waiting.append(rows.select(self._schema.names).cast(self._schema))
        self._rows += len(rows)
        if self._rows >= self._most:
            self._write()

    def _write(self) -> None:
        rows = pa.concat_tables(self._waiting).combine_chunks()
        self._waiting, self._rows = [self._schema.empty_table()], 0
        if not len(self._bounds):
            self._writers[0].write_table(rows)
            return
        first = rows[self._by[0]]
        if pa.types.is_integer(first.type):
            values = first.to_numpy()
        else:
            values = np.array(first.cast(pa.binary()).to_pylist(), np.bytes_)
        range_of = np.searchsorted(self._bounds, values, side="right").astype(np.uint16)
        order = np.argsort(range_of, kind="stable")
        edges = np.searchsorted(range_of, np.arange(len(self._files) + 1), sorter=order)
        rows = long_columns.take(rows, order)
        for number in np.flatnonzero(np.diff(edges)).tolist():
            size = int(edges[number + 1] - edges[number])
            self._writers[number].write_table(rows.slice(int(edges[number]), size))

    def tables(self) -> Iterator[pa.Table]:
        """All rows, sorted; at least one table."""
        self._write()
        for writer, file in zip(self._writers, self._files, strict=True):
            writer.close()
            file.seek(0)
            with pa.ipc.open_stream(file) as stream:
                rows = stream.read_all()
            order = pc.sort_indices(rows, [(name, "ascending") for name in self._by])
            yield long_columns.take(rows, order.to_numpy())
