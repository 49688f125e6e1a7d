"""Foreign Parquet files and Arrow streams, read in batches whose memory is bounded in advance.

A page of 2 GB may compress to 20 kB, and a dictionary with one value of 8 MB may stand for a
million rows. pyarrow allocates what a page's header claims, and the footer need not agree ("struct
PageHeader" in parquet.thrift of apache/parquet-format; Thrift's compact protocol): so the headers
are read first. An Arrow stream is mapped into memory; its offsets are checked before any value is
read, and compressed batches, whose size nothing bounds, are refused.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from ..base.errors import ItemError
from ..storage import bounds
from ..storage.bounds import megabytes
from ..storage.tables import wide
from .names import display_text

Source: TypeAlias = pa.NativeFile | BinaryIO

MAX_HEADER_BYTES = 1 << 20
MAX_DEPTH = 16  # of structs in a header
MAX_FOOTER_BYTES = 32 << 20
#: Total of the largest pages of the listed columns: one of each is in memory at once.
MAX_LISTED_BYTES = 64 << 20
#: Largest page of audio, or `bounds.FOLD` times its size on disk.
MAX_AUDIO_BYTES = 256 << 20
#: Most bytes of cells before the wanted one: they cost time, not memory.
MAX_PASSED_BYTES = 16 << 30
ROWS = 1024  # in a batch
_CONTINUES = b"\xff\xff\xff\xff"  # before each message of an Arrow stream


@dataclass(frozen=True, slots=True)
class Page:
    """Bytes of a page in the file and in memory, and its rows: 0 for a dictionary."""

    packed: int
    plain: int
    rows: int


def pages_of(source: Source, column: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """The pages of a column (not a list column) in a row group. ItemError if they are not where the
    footer says."""
    position = column.data_page_offset
    if column.has_dictionary_page and 0 < column.dictionary_page_offset < position:
        position = column.dictionary_page_offset
    end, values = position + column.total_compressed_size, column.num_values
    while values > 0 and position < end:
        page, length = _page(source, position)
        yield page
        values -= page.rows
        position += length + page.packed


def _page(source: Source, position: int) -> tuple[Page, int]:
    """The page at an offset, and the length of its header."""
    size = 256
    while True:
        source.seek(position)
        header = _Compact(source.read(size))
        try:
            fields = header.struct()
            rows = next((fields[kind][1] for kind in (5, 8) if kind in fields), 0)
            page = Page(packed=fields[3], plain=fields[2], rows=rows)
            if min(page.packed, page.plain, page.rows) >= 0:
                return page, header.at
        except IndexError:  # the header is longer, or the file ends within it
            if size < MAX_HEADER_BYTES and len(header.data) == size:
                size *= 16
                continue
        except (KeyError, TypeError, ValueError):
            pass
        raise ItemError("unreadable", f"Parquet: no page at byte {position}")


class _Compact:
    """Reads integers and structs of Thrift's compact protocol, by field number, and skips the rest.
    IndexError if the data ends too soon, ValueError if it is invalid."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def struct(self, depth: int = 0) -> dict[int, Any]:
        fields: dict[int, Any] = {}
        number = 0
        while head := self._byte():
            number = number + (head >> 4) if head >> 4 else self._signed()
            fields[number] = self._value(head & 15, depth + 1)
        return fields

    def _value(self, kind: int, depth: int) -> Any:
        if depth > MAX_DEPTH:
            raise ValueError
        if kind in (4, 5, 6):
            return self._signed()
        if kind == 12:
            return self.struct(depth)
        if kind in (9, 10):
            self._list(depth)
        elif kind == 8:
            self._skip(self._varint())
        elif kind in (3, 7):
            self._skip(1 if kind == 3 else 8)
        elif kind not in (1, 2):  # a boolean field's value is in its kind
            raise ValueError
        return None

    def _list(self, depth: int) -> None:
        head = self._byte()
        for _ in range(head >> 4 if head >> 4 < 15 else self._varint()):
            if head & 15 in (1, 2):
                self._skip(1)
            else:
                self._value(head & 15, depth + 1)

    def _byte(self) -> int:
        self._skip(1)
        return self.data[self.at - 1]

    def _skip(self, size: int) -> None:
        self.at += size
        if self.at > len(self.data):
            raise IndexError

    def _varint(self) -> int:
        value = 0
        for shift in range(0, 64, 7):
            byte = self._byte()
            value |= (byte & 127) << shift
            if byte < 128:
                return value
        raise ValueError

    def _signed(self) -> int:
        value = self._varint()
        return value >> 1 ^ -(value & 1)


class Table:
    """An open Parquet file. ItemError `unreadable` if it is invalid, or larger in memory than a
    file of its size may be."""

    def __init__(self, source: Source) -> None:
        self._source = source
        try:
            self.size = source.seek(0, os.SEEK_END)
            source.seek(max(self.size - 8, 0))
            footer = int.from_bytes(source.read(4), "little")
            if MAX_FOOTER_BYTES < footer < self.size:
                what = f"a Parquet footer of {megabytes(footer)}"
                raise ItemError(
                    "unreadable", f"{what}; at most {megabytes(MAX_FOOTER_BYTES)} are read"
                )
            source.seek(0)
            self.file = pq.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20)
            self.groups = list(map(self.file.metadata.row_group, range(self.file.num_row_groups)))
            schema = self.file.schema_arrow
            fields = [field.with_type(_without_views(field.type)) for field in schema]
            self.schema = pa.schema(fields, schema.metadata)
            columns = map(self.file.schema.column, range(self.file.metadata.num_columns))
            self._number = {column.path: number for number, column in enumerate(columns)}
        except (pa.ArrowException, OSError, ValueError) as error:
            why = f"not a readable Parquet file: {_short(error)}"
            raise ItemError("unreadable", why) from None
        self._left = bounds.expanded(self.size)
        rows, most = sum(group.num_rows for group in self.groups), bounds.rows(self.size)
        if not all(0 <= group.num_rows <= most for group in self.groups) or rows > most:
            what = f"a Parquet file of {self.size:,} bytes with {rows:,} rows"
            raise ItemError("unreadable", f"{what}; at most {most:,} are read")

    def listed(self, group: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of texts and numbers of a row group, in batches. ItemError if their pages are too
        large."""
        largest, plain, packed = [0], 0, 0
        for name in names:
            largest.append(0)
            for page in self._pages(group, name):
                largest[-1] = max(largest[-1], page.plain)
                plain += page.plain
                packed += page.packed
        self._refuse(group, names, sum(largest), MAX_LISTED_BYTES, "at once")
        self._refuse(group, names, plain, bounds.expanded(packed), f"in {packed:,} bytes")
        return self._batches(group, names, max(largest))

    def cells(self, group: int, name: str) -> Iterator[pa.RecordBatch]:
        """A column of audio of a row group, in batches. ItemError if a page expands too far."""
        largest = 0
        for page in self._pages(group, name):
            most = max(MAX_AUDIO_BYTES, bounds.FOLD * page.packed)
            self._refuse(group, [name], page.plain, most, f"in {page.packed:,} bytes")
            largest = max(largest, page.plain)
        self._left += MAX_PASSED_BYTES
        return self._batches(group, [name], largest)

    def column(self, group: int, name: str) -> pq.ColumnChunkMetaData | None:
        """The footer's entry for a column in a row group, if there is one."""
        number = self._number.get(name)
        return None if number is None else self.groups[group].column(number)

    def _pages(self, group: int, name: str) -> Iterator[Page]:
        column = self.column(group, name)
        return iter(()) if column is None else pages_of(self._source, column)

    def _refuse(self, group: int, names: Sequence[str], size: int, most: int, what: str) -> None:
        if size > most:
            what = f"row group {group} has pages of {megabytes(size)} {what} ({', '.join(names)})"
            raise ItemError("unreadable", f"{what}; at most {megabytes(most)} are read")

    def _batches(self, group: int, names: Sequence[str], largest: int) -> Iterator[pa.RecordBatch]:
        """`largest`: bytes of the largest page; no value is longer, however often it is
        repeated."""
        rows = max(1, min(ROWS, bounds.BATCH_BYTES // max(largest, 1)))
        try:
            for batch in self.file.iter_batches(
                rows, row_groups=[group], columns=list(names), use_threads=False
            ):
                columns = [
                    column.dictionary_decode()
                    if pa.types.is_dictionary(column.type)
                    else column.cast(_without_views(column.type))
                    for column in batch.columns
                ]
                self._left -= sum(column.nbytes for column in columns)
                if self._left < 0:
                    why = f"it holds more than {megabytes(bounds.expanded(self.size))}"
                    raise ItemError("unreadable", f"{why}, which is too much for its size")
                yield pa.RecordBatch.from_arrays(columns, batch.schema.names)
        except (pa.ArrowException, OSError, ValueError) as error:
            why = f"row group {group} cannot be read: {_short(error)}"
            raise ItemError("unreadable", why) from None

    def __enter__(self) -> Table:
        return self

    def __exit__(self, *exc: object) -> None:
        self._source.close()  # pyarrow closes no file that it was given


def _without_views(kind: pa.DataType) -> pa.DataType:
    """A type whose values pyarrow can measure; Polars writes others."""
    return wide(kind) if "view" in str(kind) else kind


def _short(error: BaseException) -> str:
    return display_text(str(error)).splitlines()[0][:200] if str(error) else type(error).__name__


def table_of(source: Source) -> Table:
    """An open Parquet file, or an Arrow stream. ItemError `unreadable` if it is neither."""
    is_stream = source.read(len(_CONTINUES)) == _CONTINUES
    source.seek(0)
    return ArrowStream(source) if is_stream else Table(source)


class ArrowStream(Table):
    """An open Arrow stream, as `save_to_disk` of `datasets` writes it; a row group is one of its
    batches. It has no statistics."""

    def __init__(self, source: Source) -> None:
        self._source = source
        self._number = {}
        try:
            self.size = source.seek(0, os.SEEK_END)
            mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
            messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(mapped))
            self.schema = pa.ipc.read_schema(messages.read_next_message())
            self._names = frozenset(self.schema.names)
            self.groups = list(map(self._batch, messages))
        except (pa.ArrowException, OSError, ValueError, StopIteration) as error:
            raise ItemError("unreadable", f"not a readable Arrow stream: {_short(error)}") from None
        if sum(batch.num_rows for batch in self.groups) > bounds.rows(self.size):
            raise ItemError("unreadable", "an Arrow stream with more rows than its size allows")

    def _batch(self, message: pa.ipc.Message) -> pa.RecordBatch:
        if message.type != "record batch" or _is_compressed(message.metadata):
            what = "its batches are compressed, or hold categories"
            raise ItemError("unsupported", f"{what}; write it as Parquet (`to_parquet`)")
        return pa.ipc.read_record_batch(message, self.schema)

    def listed(self, group: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        batch = self._columns(group, names)
        for start in range(0, batch.num_rows, ROWS):
            part = batch.slice(start, ROWS)
            plain = sum(c.nbytes for c in part.columns if not pa.types.is_struct(c.type))
            if plain > MAX_LISTED_BYTES:
                what = f"{ROWS:,} rows of {megabytes(plain)}; at most {megabytes(MAX_LISTED_BYTES)}"
                raise ItemError("unreadable", f"batch {group} has {what} are read")
            yield part

    def cells(self, group: int, name: str) -> Iterator[pa.RecordBatch]:
        yield self._columns(group, [name])

    def _columns(self, group: int, names: Sequence[str]) -> pa.RecordBatch:
        """Columns of a batch, by their names or those of fields in them (`audio.path`)."""
        columns = {n if n in self._names else n.partition(".")[0]: None for n in names}
        try:
            batch = self.groups[group].select([*columns])
            batch.validate(full=True)
            return batch
        except (pa.ArrowException, KeyError) as error:
            why = f"batch {group} cannot be read: {_short(error)}"
            raise ItemError("unreadable", why) from None


def _is_compressed(message: pa.Buffer) -> bool:
    """Whether a message's batch has `compression` (Message.fbs of apache/arrow); pyarrow has
    checked the places in it."""
    data = memoryview(message)
    (root,) = struct.unpack_from("<I", data)
    if not (header := _field(data, root, 2)):
        return False
    (below,) = struct.unpack_from("<I", data, header)
    return _field(data, header + below, 3) > 0


def _field(data: memoryview, table: int, number: int) -> int:
    """Where the field of a table of flatbuffers begins; 0 if it is absent."""
    (back,) = struct.unpack_from("<i", data, table)
    (size,) = struct.unpack_from("<H", data, table - back)
    if 4 + 2 * number >= size:
        return 0
    (offset,) = struct.unpack_from("<H", data, table - back + 4 + 2 * number)
    return table + offset if offset else 0
