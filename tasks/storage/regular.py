"""Opens our files only if they are regular files. In a shared OUT, a link would redirect a write, a
named pipe would block its reader, and opening a device may do anything. A source's folder may hold
links to files that are none of its own."""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from operator import attrgetter
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
_NO_SYNC = (errno.EINVAL, errno.EBADF, errno.ENOSYS, errno.ENOTSUP)


class NotAFile(ConfigError):
    """Something other than a regular file has the name of a file."""


class Outside(OSError):
    """A file that links lead out of the folder that names it."""

    def __init__(self, path: str | Path) -> None:
        super().__init__(errno.ELOOP, "a link leads out of the source", str(path))


def status(path: str | Path, follows: bool = False, opened: int | None = None) -> os.stat_result:
    """The status of a regular file, or of what was `opened` under its name; NotAFile for anything
    else."""
    result = os.stat(path, follow_symlinks=follows) if opened is None else os.fstat(opened)
    if not stat.S_ISREG(result.st_mode):
        kind = _KINDS.get(stat.S_IFMT(result.st_mode), "special file")
        raise NotAFile(f"{path} is a {kind}, but it must be a file; remove it")
    return result


def check(path: str | Path, follows: bool = True) -> None:
    """NotAFile if something other than a regular file has this name."""
    with suppress(FileNotFoundError, NotADirectoryError):
        status(path, follows)


def _opened(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o666, *, follows: bool) -> int:
    check(path, follows)  # opening a device may already do harm
    # If something took the name since the check: a link is refused, and a pipe does not block.
    flags |= os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC | (0 if follows else os.O_NOFOLLOW)
    descriptor = os.open(path, flags, mode)
    try:
        status(path, opened=descriptor)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


#: Openers of `open`: a descriptor of a file to write in place, and of a file, or a link to one, to
#: read. NotAFile for anything else.
written, read = partial(_opened, follows=False), partial(_opened, follows=True)
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


def entries(folder: str | Path) -> list[os.DirEntry[str]]:
    """Everything directly in a folder, sorted by name; nothing if there is no folder."""
    try:
        with os.scandir(folder) as scanned:
            return sorted(scanned, key=attrgetter("name"))
    except (FileNotFoundError, NotADirectoryError):
        return []


def fsync(path: Path) -> None:
    """Make a file's bytes, or the renames in a folder, durable."""
    fd = os.open(path, os.O_RDONLY)
    try:
        os.fsync(fd)
    except OSError as error:
        # SMB and FUSE may not support fsync of a folder: they make renames durable by themselves,
        # or cannot at all.
        if error.errno not in _NO_SYNC or not stat.S_ISDIR(os.fstat(fd).st_mode):
            raise
    finally:
        os.close(fd)
