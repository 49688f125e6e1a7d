"""Encoded bytes of a recording as a file object, local or remote; nothing is decoded here."""

import hashlib
import io
import os
import threading
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache, wraps
from typing import BinaryIO, TypeVar, cast

import pyarrow as pa
import pyarrow.compute as pc

from .. import storage
from ..base.errors import ItemError
from ..storage import regular, urls
from ..storage.store_errors import Redirected
from . import Locator, packed
from .parquet_tables import Table, table_of
from .unreachable import PositionedReader, item_error

Read = TypeVar("Read", bound=Callable[..., object])


class Source(io.RawIOBase):
    """A local file that remembers the error of a failed read: decoders hide it, or take it for the
    end of the file."""

    def __init__(self, file: io.FileIO) -> None:
        super().__init__()
        self._file = file
        self.failure: OSError | None = None
        self.seek, self.tell, self.fileno = file.seek, file.tell, file.fileno  # type: ignore[method-assign]

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def read(self, size: int | None = -1) -> bytes:
        try:
            return self._file.read(-1 if size is None else size)
        except OSError as error:
            self.failure = error
            raise

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        try:
            return self._file.readinto(buffer)
        except OSError as error:
            self.failure = error
            raise

    def close(self) -> None:
        self._file.close()
        super().close()


def failure(file: BinaryIO) -> OSError | None:
    """The error of a failed read of an open file; None if none failed."""
    return getattr(file, "failure", None)


class Window(PositionedReader):
    """Bytes `offset` to `offset + length` of an open file. `owned`: closing it closes that file,
    which others may read otherwise."""

    def __init__(self, file: BinaryIO, offset: int, length: int, owned: bool = False) -> None:
        super().__init__()
        self._file, self._offset, self._size, self._owned = file, offset, length, owned

    def close(self) -> None:
        if self._owned:
            self._file.close()
        super().close()

    @property
    def failure(self) -> OSError | None:
        return failure(self._file)

    def _length(self) -> int:
        return self._size

    def _read_at(self, position: int, size: int) -> bytes:
        remaining = max(self._size - position, 0)
        return self._read_whole(self._offset + position, min(size, remaining))

    def _read_whole(self, position: int, size: int) -> bytes:
        """Bytes of the larger file from `position`."""
        self._file.seek(position)
        return self._file.read(size)


def as_file(locator: Locator) -> BinaryIO:
    """The encoded bytes, opened for reading. ItemError `missing` if there is no such file, row or
    cell, `unreachable` if it cannot be read now, `unreadable` if it is not a regular file."""
    if locator.row is not None:
        return io.BytesIO(_parquet_cell(locator))
    if locator.packing == "zip":
        return _zipped(locator)
    start, length = locator.offset, locator.length
    if locator.packing is not None:  # a member of a compressed tar
        copy = unpacked(locator.path, locator.packing, locator.inside)
        start, length = start or 0, length or 0
        if size_of(cast(BinaryIO, copy)) < start + length:
            raise copy.wrong or ItemError("truncated", "the archive ends within it")
        return Window(copy, start, length)  # type: ignore[arg-type,return-value]
    if start is None:
        return open_regular(locator.path, locator.inside)
    if storage.is_url(locator.path):
        return _fetched(locator.path, start, length)
    file = open_regular(locator.path, locator.inside)  # a tar member, read in place
    rest = max(size_of(file) - start, 0)
    return Window(file, start, rest if length is None else min(length, rest), owned=True)  # type: ignore[return-value]


@lru_cache(maxsize=2)  # copies that a process keeps, besides those in use
def _copy(path: str, packing: str, inside: int | None, guard: str) -> packed.Copy:
    with open_regular(path, inside) as file:
        return packed.Copy(file, packing)


_UNPACKING = threading.Lock()  # one unpacks, and others wait for its copy


def unpacked(path: str, packing: str, inside: int | None = None) -> packed.Unpacked:
    """A compressed tar, unpacked: seekable. ItemError if it cannot be read, or there is no room."""
    try:
        with _UNPACKING:
            return packed.Unpacked(_copy(path, packing, inside, urls.guard(path)))
    except FileNotFoundError as error:
        raise ItemError("missing", "not there") from error
    except OSError as error:
        raise item_error(error) from error


def _zipped(locator: Locator) -> BinaryIO:
    """A member of a ZIP archive, checked against its checksum."""
    if storage.is_url(locator.path):
        length = packed.HEADERS + (locator.length or 0)
        file, locator = _fetched(locator.path, locator.offset, length), replace(locator, offset=0)
    else:
        file = open_regular(locator.path, locator.inside)
    try:
        return packed.member(file, locator)
    except OSError as error:
        raise item_error(failure(file) or error) from error
    finally:
        file.close()


def open_regular(path: str, inside: int | None = None) -> BinaryIO:
    """Open a regular file unbuffered, or a fetched copy of an object. `inside`: as a locator's.
    Refuses anything else: opening a named pipe would block forever. An unreachable store is a
    RunError."""
    if storage.is_url(path):
        return _fetched(path)
    try:
        opener = regular.read if inside is None else regular.read_inside(path[:inside])
        return Source(open(path, "rb", buffering=0, opener=opener))  # type: ignore[return-value]
    except regular.NotAFile as error:
        raise ItemError("unreadable", "not a regular file") from error
    except regular.Outside as error:  # put there since the folder was listed
        raise ItemError("link_outside", error.strerror or "") from error
    except (FileNotFoundError, NotADirectoryError) as error:
        raise ItemError("missing", error.strerror or "not there") from error
    except (OSError, ValueError) as error:
        raise item_error(error) from error


def _fetched(url: str, offset: int | None = None, length: int | None = None) -> BinaryIO:
    try:
        return urls.fetched(url, offset, length)
    except FileNotFoundError as error:
        raise ItemError("missing", "no such object") from error
    except Redirected as error:
        raise item_error(error) from error
    except storage.Archived as error:
        raise ItemError("unreadable", "it is in cold storage; restore it") from error


def size_of(file: BinaryIO) -> int:
    """Length in bytes; leaves the position at the start."""
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    return size


def undisturbed(read: Read) -> Read:
    """Decorates functions that look into an open file: restores its position."""

    @wraps(read)
    def looked(file: BinaryIO, *args: object) -> object:
        position = file.tell()
        try:
            return read(file, *args)
        finally:
            file.seek(position)

    return cast(Read, looked)


def digest(locator: Locator) -> tuple[str, int]:
    """sha256 in hex and size of the encoded bytes, read once in blocks."""
    sha, size = hashlib.sha256(), 0
    with as_file(locator) as file:
        try:
            while block := file.read(1 << 20):
                sha.update(block)
                size += len(block)
        except OSError as error:
            raise item_error(error) from error
    return sha.hexdigest(), size


def _parquet_cell(locator: Locator) -> bytes:
    """The bytes of a cell of a Parquet file or an Arrow stream: an Audio struct {bytes, path} or
    plain binary. Memory holds one page of its row group, and a batch of cells."""
    column, row = locator.column or "audio", locator.row
    assert row is not None
    handle = open_regular(locator.path, locator.inside)
    try:
        with table_of(handle) as table:
            return _cell(table, column, row)
    except (ItemError, OSError, pa.ArrowException):
        if failed := failure(handle):
            raise item_error(failed) from failed
        raise


def _cell(table: Table, column: str, row: int) -> bytes:
    wanted = row
    kind = dict(zip(table.schema.names, table.schema.types, strict=True)).get(column)
    if kind is None:
        raise ItemError("missing", f"no column {column!r}")
    inner = pa.types.is_struct(kind) and kind.get_field_index("bytes") >= 0
    for group, metadata in enumerate(table.groups):
        if row >= metadata.num_rows:
            row -= metadata.num_rows
            continue
        for batch in table.cells(group, f"{column}.bytes" if inner else column):
            if row < len(batch):
                cells = batch.column(0)
                cell = (pc.struct_field(cells, "bytes") if inner else cells)[row]
                if not isinstance(cell, pa.BinaryScalar) or not cell.is_valid:
                    break
                return cell.as_py()  # type: ignore[no-any-return]
            row -= len(batch)
        raise ItemError("missing", f"row {wanted} of {column!r} holds no bytes")
    raise ItemError("missing", f"no row {wanted}")
