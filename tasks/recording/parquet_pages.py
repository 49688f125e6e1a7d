"""How much memory the pages of a Parquet file take, before any of them is read.

pyarrow allocates what the header of a page claims, and the footer need not say the same ("struct
PageHeader" in parquet.thrift of apache/parquet-format; Thrift's compact protocol).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, BinaryIO, TypeAlias

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.base.errors import ItemError

MAX_HEADER_BYTES = 1 << 20
MAX_DEPTH = 16  # of what a header holds

Source: TypeAlias = pa.NativeFile | BinaryIO


@dataclass(frozen=True, slots=True)
class Page:
    """Bytes of a page in the file and in memory, and how many rows it has: none of a dictionary."""

    packed: int
    plain: int
    rows: int


def of(source: Source, column: pq.ColumnChunkMetaData) -> Iterator[Page]:
    """The pages of a column, which is in no list, of a row group. ItemError if they do not lie
    where the footer says."""
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
        except IndexError:  # the header is longer, or the file ends in it
            if size < MAX_HEADER_BYTES and len(header.data) == size:
                size *= 16
                continue
        except (KeyError, TypeError, ValueError):
            pass
        raise ItemError("unreadable", f"Parquet: no page at byte {position}")


class _Compact:
    """Integers and structs of Thrift's compact protocol, by the numbers of their fields; the rest
    is passed over. IndexError where the data ends too soon, ValueError for what is none."""

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
        elif kind not in (1, 2):  # the truth of a field is its kind
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
