"""Temporary folders of processes, and what killed ones left of theirs.

A folder has a name that nobody can foretell and belongs to its user alone (0700). Its file `lock`
says that we made it, and is locked while its process lives. TMPDIR may be shared, so anyone may
have made a folder with our prefix: only a real folder of this user's with such a file is removed.
It is emptied as the open folder that was looked at, so that nobody can swap it for a link.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

PREFIX = "uttermill-run-"
LOCK = "lock"
MARK = b"A temporary folder of uttermill, which removes it when its process has ended.\n"
EMPTY_SECONDS = 60.0  # after which an empty folder is that of a process killed while making it
REMOVE_SECONDS = 5.0


@contextmanager
def scratch(prefix: str = PREFIX, home: Path | None = None) -> Iterator[Path]:
    """A temporary folder in `home` (TMPDIR, if None); removes those that killed processes left
    there."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
    try:
        with (folder / LOCK).open("xb", buffering=0) as lock:
            with suppress(OSError):  # no locks here: then nobody takes the folder for a dead one's
                fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(MARK)
            _remove_dead(folder.parent, prefix)
            yield folder
    finally:
        _remove(folder)


def is_ours(folder: Path) -> bool:
    """Whether this is a real folder of this user's, which nobody else can have put there."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _remove_dead(home: Path, prefix: str) -> None:
    with suppress(OSError):  # TMPDIR may refuse to be listed
        for name in os.listdir(home):
            if name.startswith(prefix):
                with suppress(OSError):  # it lives, is another's, or is no folder
                    _remove_if_dead(home / name)


def _remove_if_dead(folder: Path) -> None:
    with _opened(folder) as inside:
        status = os.fstat(inside)
        if status.st_uid != os.geteuid():
            return
        try:
            lock = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=inside)
        except FileNotFoundError:  # it is being made just now, or its process was killed then
            if time.time() - status.st_mtime > EMPTY_SECONDS:
                folder.rmdir()
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_mark(lock):
                _empty(inside)
                folder.rmdir()
        finally:
            os.close(lock)


def _is_mark(lock: int) -> bool:
    status = os.fstat(lock)
    ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
    return ours and os.pread(lock, len(MARK) + 1, 0) == MARK


def _remove(folder: Path) -> None:
    """Remove this process's folder. Repeated for a while: a dying worker may still write."""
    until = time.monotonic() + REMOVE_SECONDS
    while True:
        with suppress(OSError), _opened(folder) as inside:
            _empty(inside)
            folder.rmdir()
        if not os.path.lexists(folder) or time.monotonic() > until:
            return
        time.sleep(0.05)


def _empty(folder: int) -> None:
    """Remove what is in an open folder, the lock last: a kill meanwhile leaves a folder that is
    known for a dead process's."""
    with os.scandir(folder) as scanned:
        entries = [entry for entry in scanned if entry.name != LOCK]
    for entry in entries:
        if entry.is_dir(follow_symlinks=False):
            shutil.rmtree(entry.name, ignore_errors=True, dir_fd=folder)
        else:
            os.unlink(entry.name, dir_fd=folder)
    if os.listdir(folder) == [LOCK]:
        os.unlink(LOCK, dir_fd=folder)


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    """A folder, and no link to one; `rmdir` by its path then removes an empty one at worst."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
