"""Opens our files only if they are regular files. In a shared OUT, a link would redirect a write, a
named pipe would block its reader, and opening a device may do anything. A source's folder may hold
links to files that are none of its own."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from ..base.errors import ConfigError

_KINDS = {
    stat.S_IFLNK: "link",
    stat.S_IFDIR: "folder",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class NotAFile(ConfigError):
    """Something other than a regular file has the name of a file."""


class Outside(OSError):
    """A file that links lead out of the folder that names it."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.ELOOP, "a link leads out of the source", str(path))


def written(path: str | Path, flags: int, mode: int = 0o666) -> int:
    """A descriptor of a file to write in place, an `opener` of `open`. NotAFile for anything else,
    including a link to a file."""
    return _opened(path, flags | os.O_NOFOLLOW, mode, follows=False)


def read(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a file, or of a link to one, an `opener` of `open`. NotAFile for anything
    else."""
    return _opened(path, flags, 0, follows=True)


#: (path, flags) -> a descriptor, as `open` takes it.
Opener = Callable[[str, int], int]
_real: dict[str, str] = {}  # folders, links resolved


def read_inside(folder: str) -> Opener:
    """`read` for files in `folder`, which may itself be a link. Outside for any other file."""

    def opened(path: str, flags: int) -> int:
        descriptor = read(path, flags)
        try:
            try:
                place = os.readlink(f"/proc/self/fd/{descriptor}")
            except OSError:  # not Linux
                place = os.path.realpath(path)
                if not os.path.samestat(os.fstat(descriptor), os.lstat(place)):
                    raise Outside(path) from None
            if not lies_in(place, _real.get(folder, "\0")):  # or it leads elsewhere now
                _real[folder] = os.path.realpath(folder)
                if not lies_in(place, _real[folder]):
                    raise Outside(path)
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    return opened


def lies_in(place: str, folder: str) -> bool:
    """Whether one real path is the other or below it."""
    return place == folder or place.startswith(folder.rstrip("/") + "/")


def status(path: str | Path, follows: bool = False) -> os.stat_result:
    """The status of a regular file; NotAFile for anything else."""
    result = os.stat(path, follow_symlinks=follows)
    _refuse_others(result, path)
    return result


def check(path: str | Path, follows: bool = True) -> None:
    """NotAFile if something other than a regular file has this name."""
    with suppress(FileNotFoundError, NotADirectoryError):
        status(path, follows)


def _opened(path: str | Path, flags: int, mode: int, follows: bool) -> int:
    check(path, follows)  # opening a device may already do harm
    # If something took the name since the check: a link is refused, and a pipe does not block.
    descriptor = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    try:
        _refuse_others(os.fstat(descriptor), path)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def _refuse_others(status: os.stat_result, path: str | Path) -> None:
    if not stat.S_ISREG(status.st_mode):
        kind = _KINDS.get(stat.S_IFMT(status.st_mode), "special file")
        raise NotAFile(f"{path} is a {kind}, but it must be a file; remove it")
