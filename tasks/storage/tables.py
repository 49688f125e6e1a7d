"""Parquet and Arrow files at any place; remote objects are copied first."""

from __future__ import annotations

import io
from bisect import bisect_right
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from itertools import accumulate, chain, pairwise, repeat, zip_longest
from operator import itemgetter
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from .. import storage
from ..base.arrays import Int32s, Int64s


def arrow(path: Path) -> AbstractContextManager[pa.NativeFile]:
    """A file from which pyarrow reads parts; for a remote object, a copy of its current state."""
    return storage.store_of(path).arrow(path)


Opened = Callable[[Path], AbstractContextManager[pa.NativeFile]]


@contextmanager
def writing(path: Path, schema: pa.Schema) -> Iterator[pa.RecordBatchFileWriter]:
    """A writer of an Arrow file in a local folder, batch by batch."""
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, schema) as out:
        yield out


def write_arrow(path: Path, parts: Iterable[pa.Table]) -> None:
    """Write an Arrow file into a local folder; needs at least one part."""
    path.parent.mkdir(parents=True, exist_ok=True)
    tables = iter(parts)
    first = next(tables)
    with writing(path, first.schema) as out:
        for part in chain([first], tables):
            for batch in part.combine_chunks().to_batches():
                out.write_batch(batch)


def arrow_batches(path: Path) -> Iterator[pa.RecordBatch]:
    """The record batches of an Arrow file, one at a time."""
    with arrow(path) as file:
        reader = pa.ipc.open_file(file)
        yield from map(reader.get_batch, range(reader.num_record_batches))


def replaced(table: pa.Table, name: str, values: pa.Array | pa.ChunkedArray) -> pa.Table:
    """The table with other values in a column that it has."""
    place = table.schema.get_field_index(name)
    return table.set_column(place, table.schema.field(place), values)


def parquet(table: pa.Table, **options: object) -> bytes:
    """The bytes of a Parquet file; `options` as for `pyarrow.parquet.write_table`."""
    target = io.BytesIO()
    pq.write_table(table, target, **options)
    return target.getvalue()


def from_parquet(
    data: bytes | pa.NativeFile, columns: Sequence[str] | None = None, threads: bool = False
) -> pa.Table:
    """The table of a Parquet file or of its bytes, or these columns of it:
    `pyarrow.parquet.read_table` takes twice the CPU for a small file."""
    chosen = None if columns is None else [*columns]
    file = pa.BufferReader(data) if isinstance(data, bytes) else data
    table = pq.ParquetFile(file).read(chosen, use_threads=threads)
    return table if chosen is None else table.select(chosen)


ROW_GROUP = 1 << 20  # rows, pyarrow's default


def write_parquet(path: Path, tables: Iterable[pa.Table | pa.RecordBatch]) -> None:
    """Write a Parquet file into a local folder from parts of a table, holding ROW_GROUP rows at a
    time; the same bytes as `pyarrow.parquet.write_table` of the whole."""
    rows: pa.Table | None = None
    out: pq.ParquetWriter | None = None
    try:
        for part in tables:
            new = part if isinstance(part, pa.Table) else pa.Table.from_batches([part])
            rows = new if rows is None else pa.concat_tables([rows, new])
            out = out or pq.ParquetWriter(path, rows.schema, compression="zstd")
            while len(rows) > ROW_GROUP:
                out.write_table(rows.slice(0, ROW_GROUP).combine_chunks(), ROW_GROUP)
                rows = rows.slice(ROW_GROUP)
        if out is not None and rows is not None:
            out.write_table(rows.combine_chunks(), ROW_GROUP)
    finally:
        if out is not None:
            out.close()


ROWS = 1 << 15  # least number of rows of a row group of a version's tables, but for the last


@contextmanager
def row_group_writer(
    path: Path, schema: pa.Schema, **options: object
) -> Iterator[Callable[[pa.Table], None]]:
    """Writes a Parquet file into a local folder: each call writes a row group; `options` as for
    `pyarrow.parquet.ParquetWriter`."""
    path.unlink(missing_ok=True)  # a dead worker's file
    with pq.ParquetWriter(path, schema, compression="zstd", **options) as out:

        def write(rows: pa.Table) -> None:
            out.write_table(rows.combine_chunks(), max(len(rows), 1))

        yield write


def equal(one: Path, other: Path) -> bool:
    """Whether two tables have the same columns and rows, in the same row groups; NaN equals NaN."""
    if not schema(one).equals(schema(other)):
        return False
    pairs = zip_longest(row_groups(one), row_groups(other))
    return all(
        a is not None and b is not None and without_nan(a).equals(without_nan(b)) for a, b in pairs
    )


def without_nan(table: pa.Table) -> pa.Table:
    """The table with null in place of NaN."""
    for field in table.schema:
        if pa.types.is_floating(field.type) and pc.any(pc.is_nan(table[field.name])).as_py():
            values = table[field.name]
            nothing = pa.scalar(None, field.type)
            table = replaced(table, field.name, pc.if_else(pc.is_nan(values), nothing, values))
    return table


def of_rows(rows: Sequence[Mapping[str, object]], schema: pa.Schema) -> pa.Table:
    """`pa.Table.from_pylist` for rows that have all columns, at a third of its cost."""
    columns = (pa.array([*map(itemgetter(field.name), rows)], field.type) for field in schema)
    return pa.table([*columns], schema=schema)


def columns_of(
    names: Sequence[str], rows: Sequence[tuple[object, ...]]
) -> dict[str, Sequence[object]]:
    """Columns by name, from rows whose values are in the order of `names`."""
    return (
        dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ())
    )


def column(rows: Sequence[Any], name: str) -> list[Any]:
    """The values of a key of dictionaries; None where one lacks it."""
    return [*map(dict.get, rows, repeat(name))]


def mappings(column: pa.ChunkedArray) -> list[dict[str, float | None]]:
    """`to_pylist` of a column of maps as dictionaries, at a fifth of its cost; a null becomes an
    empty one."""
    maps: list[dict[str, float | None]] = []
    for chunk in column.chunks:
        edges = chunk.offsets.to_numpy()
        first, count = int(edges[0]), int(edges[-1] - edges[0])
        coded = chunk.keys.slice(first, count).dictionary_encode()
        names = [*map(coded.dictionary.to_pylist().__getitem__, coded.indices.to_pylist())]
        values = chunk.items.slice(first, count).to_pylist()
        for low, high in pairwise((edges - first).tolist()):
            maps.append(dict(zip(names[low:high], values[low:high], strict=True)))
    return maps


def conformed(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """A table, perhaps of another release, with exactly these columns; missing ones are null."""
    if table.schema.equals(schema, check_metadata=True):  # most do, and there are many small ones
        return table
    columns = [
        table[field.name].cast(field.type)
        if field.name in table.column_names
        else pa.nulls(len(table), field.type)
        for field in schema
    ]
    return pa.table(columns, schema=schema)


def parts(path: Path) -> list[Path]:
    """The files of a table: the path itself, or the files of a folder of parts, in order."""
    path = storage.inside(path.parent, path.name)
    return storage.names(path, ".parquet") or [path]


def read(
    path: Path,
    columns: Collection[str] | None = None,
    filters: pc.Expression | None = None,
    opened: Opened = arrow,
) -> pa.Table:
    """Read a table, or some of it, from a file or a folder of parts; `opened` opens each file.
    Without `filters` it avoids `read_table`, which imports all of pyarrow.dataset."""
    chosen = None if columns is None else [*columns]
    tables = []
    for part in parts(path):
        with opened(part) as file:
            if filters is not None:
                tables.append(pq.read_table(file, columns=chosen, filters=filters))
            else:
                tables.append(from_parquet(file, chosen, threads=True))
    return pa.concat_tables(tables)


def schema(path: Path) -> pa.Schema:
    with arrow(parts(path)[0]) as file:
        return pq.read_schema(file)


def row_groups(
    path: Path,
    columns: Sequence[str] | None = None,
    opened: Opened = arrow,
) -> Iterator[pa.Table]:
    """A table, or these columns in this order, one row group at a time."""
    wanted = None if columns is None else list(columns)
    for part in parts(path):
        with opened(part) as file, pq.ParquetFile(file) as table:
            for number in range(table.num_row_groups):
                rows = table.read_row_group(number, columns=wanted)
                yield rows if wanted is None else rows.select(wanted)


class Slices(ExitStack):
    """Reads ranges of rows of some columns of a table, a row group at a time."""

    def __init__(self, path: Path, columns: Sequence[str]) -> None:
        super().__init__()
        self.columns = [*columns]
        self._file = self.enter_context(pq.ParquetFile(self.enter_context(arrow(path))))
        metadata = self._file.metadata
        sizes = (metadata.row_group(number).num_rows for number in range(metadata.num_row_groups))
        self._ends = [*accumulate(sizes)]
        self._held: tuple[int, pa.Table] | None = None

    def read(self, first: int, count: int) -> pa.Table:
        """Rows `first` to `first + count`; fastest in ascending order."""
        slices = [self._file.schema_arrow.empty_table().select(self.columns)]
        number = bisect_right(self._ends, first)
        while count > 0:
            if self._held is None or self._held[0] != number:
                group = self._file.read_row_group(number, self.columns)
                self._held = number, group.select(self.columns)
            rows = self._held[1]
            begin = first - (self._ends[number] - len(rows))
            slices.append(rows.slice(begin, count))
            first, count, number = first + len(slices[-1]), count - len(slices[-1]), number + 1
        return pa.concat_tables(slices)


# Columns with more text than fits in one Arrow array: offsets of `string` have 32 bits, so it ends
# at 2 GiB (33 million hashes).
#
# A column of many chunks may be longer, and can be read and filtered; operations that join its
# chunks (`take`, `combine_chunks`) fail. Tables of a whole corpus go through these functions
# instead, which keep the types; those of a shard, a batch or a row group are far smaller.


LIMIT = 2**31 - 1  # bytes of an array
Scalar = TypeVar("Scalar", bound=np.generic)


def take(table: pa.Table, rows: NDArray[np.integer]) -> pa.Table:
    """These rows, in this order. Each column is one chunk, unless it is too long for that.
    ArrowInvalid if rows that are taken again make one too long that was not."""
    if table.nbytes <= LIMIT and len(rows) <= len(table):
        return table.combine_chunks().take(pa.array(rows))
    columns = []
    for column in table.columns:
        whole = column.cast(wide(column.type)).combine_chunks()
        columns.append(pa.chunked_array(_pieces(whole, rows, column.type), column.type))
        del whole
    return pa.table(columns, schema=table.schema)


def _pieces(column: pa.Array, rows: NDArray[np.integer], kind: pa.DataType) -> Iterator[pa.Array]:
    taken = column.take(pa.array(rows))
    if taken.nbytes <= LIMIT or len(rows) < 2 or column.type == kind:
        yield taken.cast(kind)
        return
    del taken
    for half in np.array_split(rows, 2):
        yield from _pieces(column, half, kind)


def wide(kind: pa.DataType) -> pa.DataType:
    """The same type with 64-bit offsets, in place of views, too."""
    types = pa.types
    if types.is_string(kind) or types.is_string_view(kind):
        return pa.large_string()
    if types.is_binary(kind) or types.is_binary_view(kind):
        return pa.large_binary()
    if types.is_list(kind):
        return pa.large_list(kind.value_field.with_type(wide(kind.value_type)))
    if types.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return pa.struct([field.with_type(wide(field.type)) for field in fields])
    return kind


def order_by(table: pa.Table, names: Iterable[str]) -> Int64s:
    """The numbers of the rows, sorted by these columns."""
    keys = [(name, "ascending") for name in names]
    order: Int64s = pc.sort_indices(table, sort_keys=keys).to_numpy().astype(np.int64)
    return order


def numbered(column: pa.ChunkedArray, numbers: dict[str, int]) -> Int32s:
    """The number of each row's name; names that `numbers` lacks get the next ones in it."""
    names = coded(column)
    number_of = [numbers.setdefault(n, len(numbers)) for n in names.dictionary.to_pylist()]
    codes: Int32s = np.array(number_of, np.int32)[names.indices.to_numpy()]
    return codes


def coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """The column, dictionary-encoded in order of first appearance. The distinct values must fit one
    array."""
    return column.dictionary_encode().combine_chunks()


def joined(pieces: list[NDArray[Scalar]]) -> NDArray[Scalar]:
    """The pieces as one array; empties the list, to save memory."""
    whole = np.concatenate(pieces)
    pieces.clear()
    return whole
