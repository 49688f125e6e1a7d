"""Local copies of remote objects, for libraries that read files. Unnamed, so a kill leaves none.

A process caches the most recently used; the guard of the object is part of a copy's key.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass
from typing import IO, BinaryIO

from .store_errors import FileSystem, protocols

#: Bytes and files that a process caches, besides the last copy.
CACHED_BYTES, CACHED_FILES = 256 << 20, 64
BLOCK = 8 << 20
#: Where an unnamed open file can be opened again, with its own position.
_BY_NUMBER = "/proc/self/fd"

Key = tuple[str, str, int | None, int | None]


@dataclass(slots=True)
class _Copy:
    file: IO[bytes]
    size: int

    @property
    def path(self) -> str:
        unnamed = os.path.isdir(_BY_NUMBER)
        return f"{_BY_NUMBER}/{self.file.fileno()}" if unnamed else str(self.file.name)

    def opened(self) -> BinaryIO:
        return open(self.path, "rb", buffering=0)


_cached: OrderedDict[Key, _Copy] = OrderedDict()
_lock = threading.Lock()


@atexit.register
def close_all() -> None:
    """Close, and so remove, all copies."""
    with _lock:
        while _cached:
            _cached.popitem()[1].file.close()


def cached(
    files: FileSystem,
    key: str,
    guard: str,
    offset: int | None = None,
    length: int | None = None,
    size: int | None = None,
) -> BinaryIO:
    """A copy of an object, or of a range of bytes of it, opened for reading. `size`: bytes of the
    whole object, for a range without `length`."""
    name = (f"{protocols(files)[0]}://{key}", guard, offset, length)
    with _lock:
        if copied := _cached.get(name):
            _cached.move_to_end(name)
            return copied.opened()
    copy = _fetch(files, key, offset, length, size)
    if not guard:  # without it a change would go unnoticed
        try:
            return copy.opened()
        finally:
            copy.file.close()
    with _lock:
        if name in _cached:  # another thread was quicker
            copy.file.close()
            return _cached[name].opened()
        _cached[name] = copy
        while len(_cached) > 1 and (
            len(_cached) > CACHED_FILES
            or sum(file.size for file in _cached.values()) > CACHED_BYTES
        ):
            _cached.popitem(last=False)[1].file.close()
        return copy.opened()


def fetched(files: FileSystem, key: str) -> BinaryIO:
    """An uncached copy of a whole object."""
    copy = _fetch(files, key, None, None, None)
    try:
        return copy.opened()
    finally:
        copy.file.close()


def _fetch(
    files: FileSystem, key: str, offset: int | None, length: int | None, size: int | None
) -> _Copy:
    unnamed = os.path.isdir(_BY_NUMBER)
    file: IO[bytes] = tempfile.TemporaryFile() if unnamed else tempfile.NamedTemporaryFile()  # noqa: SIM115
    try:
        if offset is None:
            files.get_file(key, _Copy(file, 0).path)
        else:
            end = size if length is None else min(offset + length, size or 0)
            for low in range(offset, end or 0, BLOCK):
                file.write(files.cat_file(key, start=low, end=min(low + BLOCK, end or 0)))
            file.flush()
        return _Copy(file, os.fstat(file.fileno()).st_size)
    except BaseException:
        file.close()
        raise
