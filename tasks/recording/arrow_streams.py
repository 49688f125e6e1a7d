"""Arrow streams, as `save_to_disk` of `datasets` writes them, read as Parquet files are.

A file is mapped into memory, so that only what is read of it takes some. Since it is foreign, its
offsets are checked before any value is read, and compressed batches, whose size nothing bounds, are
refused.
"""

from __future__ import annotations

import mmap
import os
import struct
from collections.abc import Iterator, Sequence

import pyarrow as pa

from ..base.errors import ItemError
from ..storage import bounds
from ..storage.bounds import megabytes
from .names import display_text
from .parquet_tables import MAX_LISTED_BYTES, ROWS, Source, Table

_CONTINUES = b"\xff\xff\xff\xff"  # before each message


def table_of(source: Source) -> Table:
    """An open Parquet file, or an Arrow stream. ItemError `unreadable` if it is neither."""
    is_stream = source.read(len(_CONTINUES)) == _CONTINUES
    source.seek(0)
    return ArrowStream(source) if is_stream else Table(source)


class ArrowStream(Table):
    """An open Arrow stream; a row group is one of its batches."""

    def __init__(self, source: Source) -> None:
        self._source = source
        try:
            self.size = source.seek(0, os.SEEK_END)
            mapped = mmap.mmap(source.fileno(), 0, access=mmap.ACCESS_READ)
            messages = pa.ipc.MessageReader.open_stream(pa.py_buffer(mapped))
            self.schema = pa.ipc.read_schema(messages.read_next_message())
            self._names = frozenset(self.schema.names)
            self.groups = list(map(self._batch, messages))
        except (pa.ArrowException, OSError, ValueError, StopIteration) as error:
            why = display_text(str(error)).partition("\n")[0][:200]
            raise ItemError("unreadable", f"not a readable Arrow stream: {why}") from None
        if sum(batch.num_rows for batch in self.groups) > bounds.rows(self.size):
            raise ItemError("unreadable", "an Arrow stream with more rows than its size allows")

    def _batch(self, message: pa.ipc.Message) -> pa.RecordBatch:
        if message.type != "record batch" or _is_compressed(message.metadata):
            what = "its batches are compressed, or hold categories"
            raise ItemError("unsupported", f"{what}; write it as Parquet (`to_parquet`)")
        return pa.ipc.read_record_batch(message, self.schema)

    def listed(self, group: int, names: Sequence[str]) -> Iterator[pa.RecordBatch]:
        """Columns of texts and numbers of a batch, in parts. ItemError if they are too large."""
        batch = self._columns(group, names)
        for start in range(0, batch.num_rows, ROWS):
            part = batch.slice(start, ROWS)
            plain = sum(c.nbytes for c in part.columns if not pa.types.is_struct(c.type))
            if plain > MAX_LISTED_BYTES:
                what = f"{ROWS:,} rows of {megabytes(plain)}; at most {megabytes(MAX_LISTED_BYTES)}"
                raise ItemError("unreadable", f"batch {group} has {what} are read")
            yield part

    def cells(self, group: int, name: str) -> Iterator[pa.RecordBatch]:
        """A column of audio of a batch."""
        yield self._columns(group, [name])

    def column(self, group: int, name: str) -> None:
        """A stream has no statistics."""

    def _columns(self, group: int, names: Sequence[str]) -> pa.RecordBatch:
        """Columns of a batch, by their names or those of fields in them (`audio.path`)."""
        columns = {n if n in self._names else n.partition(".")[0]: None for n in names}
        try:
            batch = self.groups[group].select([*columns])
            batch.validate(full=True)
            return batch
        except (pa.ArrowException, KeyError) as error:
            why = display_text(str(error)).partition("\n")[0][:200]
            raise ItemError("unreadable", f"batch {group} cannot be read: {why}") from None

    def __exit__(self, *exc: object) -> None:
        self._source.close()


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
