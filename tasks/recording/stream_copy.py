"""Compressed tars, unpacked as far as they are read: their members have no offset in the file. A
copy is an unnamed temporary file, which all readers of a process share."""

from __future__ import annotations

import gzip
import os
import shutil
import tempfile
import threading
import weakref
import zlib
from collections.abc import Callable
from functools import lru_cache
from typing import BinaryIO, cast

import pyarrow as pa

from ..base.errors import UNREACHABLE, ItemError
from ..storage import bounds, urls
from .unreachable import PositionedReader, item_error

#: Supported compressions, as named by `file_kinds.compression`.
PACKINGS = ("gzip", "zstd")
LEFT_FREE = 1 << 30  # bytes that stay free on the temporary folder's disk
_CHECKED = 64 << 20  # bytes between two checks of the free space
_BLOCK = 1 << 16  # bytes: at most this much before damage is lost


class _Copy:
    """The unpacked part of a file. `wrong`: why no more can be unpacked."""

    open_file: Callable[[str], BinaryIO]

    def __init__(self, path: str, packing: str) -> None:
        self.size = 0
        self.whole = False
        self.wrong: ItemError | None = None
        self._path, self._packing = path, packing
        self._stream: BinaryIO | None = None
        self._most = self._room = 0
        self._lock = threading.Lock()
        with tempfile.TemporaryFile() as file:
            self._number = os.dup(file.fileno())
        weakref.finalize(self, os.close, self._number)

    def read(self, position: int, size: int) -> bytes:
        self.reach(position + size)
        return os.pread(self._number, size, position)

    def reach(self, position: int | None) -> None:
        """Unpack up to `position`, or to the end if None. ItemError if the file cannot be read now,
        if there is no room, or if it expands too much."""
        with self._lock:
            while not self.whole and not self.wrong:
                if position is not None and self.size >= position:
                    break
                try:
                    self._grow()
                except ItemError:
                    self._start_again()
                    raise
                except (OSError, EOFError, zlib.error) as error:
                    if isinstance(error, OSError) and error.errno is not None:
                        self._start_again()
                        raise item_error(error) from error
                    size = f"{self.size:,} unpacked bytes"
                    what = f"its {self._packing} stream is damaged after {size} ({error})"
                    self.wrong = ItemError("truncated", f"{what}; get it again")

    def _start_again(self) -> None:
        """Start over at the next try: a failed stream has lost its place."""
        self._stream = None
        self.size = 0

    def _grow(self) -> None:
        if self._stream is None:
            file = self.open_file(self._path)
            weakref.finalize(self, file.close)
            self._most, self._room = bounds.expanded(file.seek(0, os.SEEK_END)), 0
            file.seek(0)
            self._stream = cast(
                BinaryIO,
                gzip.GzipFile(fileobj=file)
                if self._packing == "gzip"
                else pa.CompressedInputStream(pa.PythonFile(file, "r"), self._packing),
            )
        if self.size >= self._room:
            self._check_room()
            self._room = self.size + _CHECKED
        block = self._stream.read1(_BLOCK)  # type: ignore[attr-defined]
        if self.size + len(block) > self._most:
            what = f"it expands to more than {bounds.megabytes(self._most)}"
            self.wrong = ItemError("expands", f"{what}; unpack it if that is right")
        elif block:
            os.pwrite(self._number, block, self.size)
            self.size += len(block)
        else:
            self.whole = True

    def _check_room(self) -> None:
        folder = tempfile.gettempdir()
        if shutil.disk_usage(folder).free < LEFT_FREE + _CHECKED:
            what = f"no room in {folder} to unpack it; free some, set TMPDIR to a larger disk"
            raise ItemError(UNREACHABLE, f"{what}, or unpack the archive")


class Unpacked(PositionedReader):
    """A compressed file, seekable, unpacked while it is read. Its length is what can be unpacked;
    `wrong` says why that is not all of it."""

    def __init__(self, copy: _Copy) -> None:
        super().__init__()
        self._copy = copy

    @property
    def wrong(self) -> ItemError | None:
        return self._copy.wrong

    def reached(self, position: int) -> int:
        """The number of unpacked bytes, after unpacking up to `position` if possible."""
        self._copy.reach(position)
        return self._copy.size

    def _length(self) -> int:
        self._copy.reach(None)
        return self._copy.size

    def _read_at(self, position: int, size: int) -> bytes:
        return self._copy.read(position, size)


@lru_cache(maxsize=2)  # copies that a process keeps, besides those in use
def _copy(path: str, packing: str, guard: str) -> _Copy:
    return _Copy(path, packing)


def opened(path: str, packing: str, open_file: Callable[[str], BinaryIO]) -> Unpacked:
    """A compressed file, unpacked while it is read. OSError if it is missing."""
    copy = _copy(path, packing, urls.guard(path))
    copy.open_file = open_file
    return Unpacked(copy)
