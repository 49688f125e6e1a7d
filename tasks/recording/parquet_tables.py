"""Parquet files of others, read in batches whose memory is bounded before it is taken.

A page of 2 GB may lie in 20 kB, and a dictionary of one value of 8 MB may stand for a million rows.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.base.errors import ItemError
from tasks.recording import parquet_pages
from tasks.recording.names import display_text
from tasks.recording.parquet_pages import Source
from tasks.storage import bounds
from tasks.storage.bounds import megabytes

MAX_FOOTER_BYTES = 32 << 20
#: Pages of columns that are listed: one of each is held at once.
MAX_LISTED_BYTES = 64 << 20
#: A page of audio has so many bytes, or `bounds.FOLD` times what it has on disk.
MAX_AUDIO_BYTES = 256 << 20
#: Of the cells before the one that is wanted: they take time, not memory.
MAX_PASSED_BYTES = 16 << 30
ROWS = 1024  # of a batch


class Table:
    """An open Parquet file. ItemError `unreadable` if it is none, or larger in memory than a table
    of its size may be."""

    def __init__(self, source: Source) -> None:
        self._source = source
        try:
            self.size = source.seek(0, os.SEEK_END)
            source.seek(max(self.size - 8, 0))
            footer = int.from_bytes(source.read(4), "little")
            if MAX_FOOTER_BYTES < footer < self.size:
                raise ItemError(
                    "unreadable",
                    f"a Parquet footer of {megabytes(footer)}; at most "
                    f"{megabytes(MAX_FOOTER_BYTES)} are read",
                )
            source.seek(0)
            self.file = pq.ParquetFile(source, pre_buffer=False, buffer_size=1 << 20)
            self.groups = list(map(self.file.metadata.row_group, range(self.file.num_row_groups)))
            self.schema = self.file.schema_arrow
            columns = map(self.file.schema.column, range(self.file.metadata.num_columns))
            self._number = {column.path: number for number, column in enumerate(columns)}
        except (pa.ArrowException, OSError, ValueError) as error:
            why = f"not a readable Parquet file: {_short(error)}"
            raise ItemError("unreadable", why) from None
        self._left = bounds.expanded(self.size)
        rows, most = sum(group.num_rows for group in self.groups), bounds.rows(self.size)
        if not all(0 <= group.num_rows <= most for group in self.groups) or rows > most:
            raise ItemError(
                "unreadable",
                f"a Parquet file of {self.size:,} bytes with {rows:,} rows; at most {most:,} are "
                "read",
            )

    def listed(self, group: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of texts and numbers of a row group. ItemError if their pages are too large."""
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
        """A column of audio of a row group. ItemError if a page expands too far."""
        largest = 0
        for page in self._pages(group, name):
            most = max(MAX_AUDIO_BYTES, bounds.FOLD * page.packed)
            self._refuse(group, [name], page.plain, most, f"in {page.packed:,} bytes")
            largest = max(largest, page.plain)
        self._left += MAX_PASSED_BYTES
        return self._batches(group, [name], largest)

    def column(self, group: int, name: str) -> pq.ColumnChunkMetaData | None:
        """What the footer says of a column in a row group, if there is one."""
        number = self._number.get(name)
        return None if number is None else self.groups[group].column(number)

    def _pages(self, group: int, name: str) -> Iterator[parquet_pages.Page]:
        column = self.column(group, name)
        return iter(()) if column is None else parquet_pages.of(self._source, column)

    def _refuse(self, group: int, names: Sequence[str], size: int, most: int, what: str) -> None:
        if size > most:
            raise ItemError(
                "unreadable",
                f"row group {group} has pages of {megabytes(size)} {what} ({', '.join(names)}); "
                f"at most {megabytes(most)} are read",
            )

    def _batches(self, group: int, names: Sequence[str], largest: int) -> Iterator[pa.RecordBatch]:
        """`largest`: bytes of a page. A value has no more, however often it is repeated."""
        rows = max(1, min(ROWS, bounds.BATCH_BYTES // max(largest, 1)))
        try:
            for batch in self.file.iter_batches(
                rows, row_groups=[group], columns=list(names), use_threads=False
            ):
                columns = [_decoded(column) for column in batch.columns]
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
        self.file.close()
        self._source.close()


def _decoded(column: pa.Array) -> pa.Array:
    return column.dictionary_decode() if pa.types.is_dictionary(column.type) else column


def _short(error: BaseException) -> str:
    return display_text(str(error)).splitlines()[0][:200] if str(error) else type(error).__name__
