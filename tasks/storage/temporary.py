"""Temporary folders of processes (0700); removes those of killed processes.

A folder's file `lock` marks it as ours, and is locked while its process lives. Anyone may have made
a folder with our prefix in TMPDIR: only a real folder of this user with such a file is removed, and
emptied through the descriptor that was checked.
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
EMPTY_SECONDS = 60.0  # age at which an empty folder is a killed process's
REMOVE_SECONDS = 5.0


@contextmanager
def scratch(prefix: str = PREFIX, home: Path | None = None) -> Iterator[Path]:
    """A temporary folder in `home` (TMPDIR, if None); removes those of killed processes there."""
    folder = Path(tempfile.mkdtemp(prefix=prefix, dir=home))
    try:
        with (folder / LOCK).open("xb", buffering=0) as lock:
            with suppress(OSError):  # without locks, no process removes another's folder
                fcntl.flock(lock, fcntl.LOCK_EX)
            lock.write(MARK)
            with suppress(OSError):  # TMPDIR may refuse to be listed
                for name in os.listdir(folder.parent):
                    if name.startswith(prefix):
                        with suppress(OSError):  # it is in use, another user's, or not a folder
                            _remove_if_dead(folder.parent / name)
            yield folder
    finally:
        _remove(folder)


def is_ours(folder: Path) -> bool:
    """Whether this is a real folder of this user, which nobody else can have put there."""
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _remove_if_dead(folder: Path) -> None:
    with _opened(folder) as inside:
        status = os.fstat(inside)
        if status.st_uid != os.geteuid():
            return
        try:
            lock = os.open(LOCK, os.O_RDWR | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=inside)
        except FileNotFoundError:  # it is just being made, or its maker was killed
            if time.time() - status.st_mtime > EMPTY_SECONDS:
                folder.rmdir()
            return
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            status = os.fstat(lock)
            ours = stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid()
            if ours and os.pread(lock, len(MARK) + 1, 0) == MARK:
                _empty(inside)
                folder.rmdir()
        finally:
            os.close(lock)


def _remove(folder: Path) -> None:
    """Remove this process's folder. Retries for a while: a dying worker may still write."""
    until = time.monotonic() + REMOVE_SECONDS
    while True:
        with suppress(OSError), _opened(folder) as inside:
            _empty(inside)
            folder.rmdir()
        if not os.path.lexists(folder) or time.monotonic() > until:
            return
        time.sleep(0.05)


def _empty(folder: int) -> None:
    """Remove the contents of an open folder, the lock last: until then it is recognised."""
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
    """Opens a folder, never through a link."""
    descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
    try:
        yield descriptor
    finally:
        os.close(descriptor)
