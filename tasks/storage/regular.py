"""Opens files of ours as what they must be, regular ones, whatever lies under their names.

OUT may be shared. A link in place of a file would lead a write elsewhere, a named pipe would block
its reader for ever, and opening a device may do anything.
"""

from __future__ import annotations

import os
import stat
from contextlib import suppress
from pathlib import Path

from tasks.base.errors import ConfigError

_KINDS = {
    stat.S_IFLNK: "link",
    stat.S_IFDIR: "folder",
    stat.S_IFIFO: "named pipe",
    stat.S_IFSOCK: "socket",
    stat.S_IFCHR: "device",
    stat.S_IFBLK: "device",
}


class NotAFile(ConfigError):
    """Something else has the name of a file."""


def written(path: str | Path, flags: int, mode: int = 0o666) -> int:
    """A descriptor of a file that is written in place; less the umask, a new one has `mode`.
    NotAFile for anything else, a link to a file included. Serves `open` as its `opener`."""
    return _opened(path, flags | os.O_NOFOLLOW, mode, follows=False)


def read(path: str | Path, flags: int = os.O_RDONLY) -> int:
    """A descriptor of a file that is only read, so a link to one will do. NotAFile for anything
    else. Serves `open` as its `opener`."""
    return _opened(path, flags, 0, follows=True)


def status(path: str | Path, follows: bool = False) -> os.stat_result:
    """The status of a file; NotAFile if something else has its name."""
    result = os.stat(path, follow_symlinks=follows)
    _refuse_others(result, path)
    return result


def check(path: str | Path, follows: bool = True) -> None:
    """NotAFile if something else has this name; nothing if the name is free."""
    with suppress(FileNotFoundError, NotADirectoryError):
        status(path, follows)


def _opened(path: str | Path, flags: int, mode: int, follows: bool) -> int:
    check(path, follows)  # opening a device may already do harm
    # Of what has taken the name since then, a link is refused and a pipe is not waited for.
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
