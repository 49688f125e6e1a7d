"""An append-only file of lines; on an object store, numbered objects that are never overwritten.

    PATH                 the file
    FOLDER/00000001      on a store: what one writer appended at once, after the lines of PATH
    FOLDER/00000002      the next; each is put only where nothing lies yet

Objects cannot grow. If two writers take the same number, the store accepts one put, and the other
takes the next number; so nothing is lost, and what was once read remains a prefix of the file.
"""

from __future__ import annotations

import fcntl
import os
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from ..base.errors import ConfigError
from . import owners, regular
from .objects import Objects

KEPT = 20_000  # objects that a process caches: they never change
AT_ONCE = 8  # missing objects above which the whole folder is read by one request

_store = Objects()
_known: dict[str, bytes] = {}


def append(path: Path, folder: Path, data: bytes) -> None:
    """Append lines, all or none. ConfigError if the file may not be written, or if a store lets
    objects be overwritten."""
    if not isinstance(path, Path):
        _put(folder, data)
        return
    try:
        handle = regular.written(path, os.O_RDWR | os.O_CREAT | os.O_APPEND)
    except OSError as error:
        raise ConfigError(f"cannot write to {path}: {owners.told(error, path)}") from None
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
        except OSError as error:
            raise owners.no_locks(path, error) from error
        size = os.fstat(handle).st_size
        if size and os.pread(handle, 1, size - 1) != b"\n":  # a line that a crash cut short
            data = b"\n" + data
        try:
            written = 0
            while written < len(data):
                written += os.write(handle, data[written:])
        except OSError:  # a full disk: remove the half that was written
            os.ftruncate(handle, size)
            raise
        os.fsync(handle)
    finally:
        os.close(handle)


def read(path: Path, folder: Path) -> bytes:
    """Everything appended so far, in order. NotAFile for anything but a file."""
    data = b""
    with suppress(FileNotFoundError):
        if isinstance(path, Path):
            with open(path, "rb", opener=regular.written) as file:
                data = file.read()
        else:
            data = _store.read(path)
    return data if isinstance(path, Path) else data + _objects(folder)


def replace(path: Path, folder: Path, data: bytes) -> None:
    """Give a log other lines. ConfigError on an object store, where others may be reading it."""
    if not isinstance(path, Path):
        raise ConfigError(
            f"{folder} keeps its lines, as objects never change: remove those that must go by hand"
        )
    handle = regular.written(path, os.O_RDWR)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        os.ftruncate(handle, 0)
        while data:
            data = data[os.write(handle, data) :]
        os.fsync(handle)
    finally:
        os.close(handle)


def _put(folder: Path, data: bytes) -> None:
    _prove(folder)
    number = max(_numbers(folder), default=0) + 1
    while True:
        path = folder / f"{number:08d}"
        try:
            return _store.put(path, data, exclusive=True)
        except FileExistsError:
            if _store.read(path) == data:  # ours: the answer to the first put was lost
                return None
            number += 1


def _objects(folder: Path) -> bytes:
    paths = [folder / f"{number:08d}" for number in _numbers(folder)]
    if len(_known) > KEPT:
        _known.clear()
    missing = [path for path in paths if str(path) not in _known]
    if len(missing) > AT_ONCE:
        contents = _store.read_all(folder)
        _known.update({str(path): contents[path.name] for path in missing})
    else:
        _known.update({str(path): _store.read(path) for path in missing})
    return b"".join(_known[str(path)] for path in paths)


def _numbers(folder: Path) -> list[int]:
    return sorted(int(path.name) for path in _store.names(folder) if path.name.isdigit())


@lru_cache(maxsize=32)
def _prove(folder: Path) -> None:
    """Check that the store refuses a second exclusive put of an object."""
    probe = folder / "exclusive"
    for _ in range(2):
        try:
            _store.put(probe, b"", exclusive=True)
        except FileExistsError:
            return
    raise ConfigError(
        f"the object store of {folder} does not honour `If-None-Match: *`, so two writers could "
        f"overwrite each other's lines; use another store, or a folder"
    )
