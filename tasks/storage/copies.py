"""Local copies of remote objects, for libraries that read files: unnamed, so a kill leaves none.

A process holds the newest few up to a bound. A copy is known by the mark of the object (its size,
time and ETag), so one that was written over is fetched anew.
"""

from __future__ import annotations

import atexit
import os
import tempfile
import threading
from collections import OrderedDict
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

#: Bytes and files that a process holds, beside the copy that it fetched last.
HELD_BYTES, HELD_FILES = 256 << 20, 64
BLOCK = 8 << 20
#: Where an open file that has no name can be opened again with a position of its own.
_BY_NUMBER = "/proc/self/fd"

Key = tuple[str, str, int | None, int | None]


@dataclass(slots=True)
class _Copy:
    file: Any
    size: int

    @property
    def path(self) -> str:
        unnamed = os.path.isdir(_BY_NUMBER)
        return f"{_BY_NUMBER}/{self.file.fileno()}" if unnamed else str(self.file.name)

    def opened(self) -> BinaryIO:
        return open(self.path, "rb", buffering=0)


_held: OrderedDict[Key, _Copy] = OrderedDict()
_kept: dict[Key, _Copy] = {}
_lock = threading.Lock()


@atexit.register
def let_go() -> None:
    """Close all copies, which ends them."""
    with _lock:
        for copies in (_held, _kept):
            while copies:
                copies.popitem()[1].file.close()


def held(
    files: Any, key: str, mark: str, offset: int | None = None, length: int | None = None,
    size: int | None = None,
) -> BinaryIO:  # fmt: skip
    """A copy of an object, or of a range of it, opened for reading; the caller closes it."""
    name = (f"{_scheme(files)}://{key}", mark, offset, length)
    with _lock:
        if found := _held.get(name):
            _held.move_to_end(name)
            return found.opened()
    copy = _fetch(files, key, offset, length, size)
    if not mark:  # nothing tells whether it is still the same
        try:
            return copy.opened()
        finally:
            copy.file.close()
    with _lock:
        if name in _held:  # another thread was quicker
            copy.file.close()
            return _held[name].opened()
        _held[name] = copy
        while len(_held) > 1 and (
            len(_held) > HELD_FILES or sum(each.size for each in _held.values()) > HELD_BYTES
        ):
            _held.popitem(last=False)[1].file.close()
        return copy.opened()


def kept(files: Any, key: str, mark: str) -> Path:
    """A path to a copy that stays as long as the process: for libraries that want one."""
    name = (f"{_scheme(files)}://{key}", mark, None, None)
    with _lock:
        if name not in _kept:
            _kept[name] = _fetch(files, key, None, None, None)
        return Path(_kept[name].path)


def fetched(files: Any, key: str) -> BinaryIO:
    """A copy of a whole object as it is now, held by nobody else; the caller closes it."""
    copy = _fetch(files, key, None, None, None)
    try:
        return copy.opened()
    finally:
        copy.file.close()


def _fetch(files: Any, key: str, offset: int | None, length: int | None, size: int | None) -> _Copy:
    unnamed = os.path.isdir(_BY_NUMBER)
    file: Any = tempfile.TemporaryFile() if unnamed else tempfile.NamedTemporaryFile()  # noqa: SIM115
    try:
        if offset is None:
            path = f"{_BY_NUMBER}/{file.fileno()}" if unnamed else file.name
            files.get_file(key, path)
        else:
            end = size if length is None else min(offset + length, size or 0)
            for low in range(offset, end or 0, BLOCK):
                file.write(files.cat_file(key, start=low, end=min(low + BLOCK, end or 0)))
            file.flush()
        return _Copy(file, os.fstat(file.fileno()).st_size)
    except BaseException:
        file.close()
        raise


def _scheme(files: Any) -> str:
    return files.protocol if isinstance(files.protocol, str) else str(files.protocol[0])
