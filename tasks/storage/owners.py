"""The operating system's refusals in words: who owns a file, which disk is full, and, before any
work, what the file system of OUT cannot do that a run needs.

Without symbolic links `datasets/latest` is a small file, without hard links files are copied, and
nothing needs chmod. The rest has no substitute: a rename makes a version appear whole, a lock keeps
two runs apart.
"""

from __future__ import annotations

import errno
import fcntl
import grp
import os
import pwd
import re
import shutil
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from ..base.errors import ConfigError
from .regular import fsync

FULL = (errno.ENOSPC, errno.EDQUOT)
SIZES = (
    "`ulimit -f` limits the size of files, or the disk does (FAT: 4 GiB); raise the limit, or put "
    "OUT and TMPDIR on another disk"
)
#: pyarrow names the file in these words alone.
_BY_ARROW = re.compile(r"Failed to open local file '(.+)'\. Detail: ")


@contextmanager
def naming(*places: Path) -> Iterator[None]:
    """Add the place with the least room to the error of a full disk, if it names no file."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            room: dict[Path, int] = {}
            for place in places:
                with suppress(OSError):
                    room[place] = shutil.disk_usage(place).free
            error.filename = str(min(room or places, key=lambda place: room.get(place, 0)))
        raise


def sentence(error: OSError) -> str:
    """What happened and where, and the remedy for what a person can mend."""
    if isinstance(error, IsADirectoryError | NotADirectoryError) and error.filename:
        place = os.fsdecode(error.filename2 or error.filename)  # the second: what is replaced
        is_folder = isinstance(error, IsADirectoryError)
        fault = "is a folder, where a file belongs" if is_folder else "leads through a file"
        return f"{place} {fault}: move that out of the way, and run again"
    words = told(error, ".")
    if error.errno in FULL or isinstance(error, PermissionError) or not error.filename:
        return words
    what = "cannot write" if error.errno == errno.EROFS else "the system refused"
    return f"{what} {os.fsdecode(error.filename)}: {words[:1].lower()}{words[1:]}"


def told(error: OSError, path: str | Path) -> str:
    """The error's words; for a full disk also where (the file that it names, else `path`) and what
    to do; for a file that may not grow what limits it; for a refused access who owns the file, or
    the nearest existing folder above it."""
    if error.errno in FULL:
        place = os.fsdecode(error.filename or path)
        words = os.strerror(error.errno)  # a library puts its own words into strerror
        how_much = "`uttermill estimate` forecasts how much a run takes"
        return f"no space left on {place} ({words}): free some, then run it again; {how_much}"
    words = error.strerror or str(error)
    if error.errno == errno.EFBIG:
        return f"{words}: {SIZES}"
    if error.errno == errno.EROFS:
        return f"{words}: mount it for writing, or work on a copy on another disk"
    if not isinstance(error, PermissionError):
        return words
    if arrow := _BY_ARROW.match(words):
        words, path = os.strerror(errno.EACCES), arrow[1]
    path = Path(os.fsdecode(error.filename or path))
    with suppress(OSError):  # a folder above it may be unreadable
        while not os.path.lexists(path) and path != path.parent:
            path = path.parent
        status = os.lstat(path)
        owner, us = _user(status.st_uid), _user(os.geteuid())
        try:
            group = grp.getgrgid(status.st_gid).gr_name
        except KeyError:
            group = str(status.st_gid)
        remedy = f"ask {owner} to grant you, or a group that you share, the right to it"
        return (
            f"{words}: {path} belongs to {owner}, group {group}, with mode "
            f"{stat.filemode(status.st_mode)}, and you are {us}; "
            + ("chmod it" if owner == us else remedy)
        )
    return words


def words(error: Exception, path: str | Path) -> str:
    """`told` for an error of the system; otherwise the error's own words."""
    return told(error, path) if isinstance(error, OSError) else str(error)


def _user(number: int) -> str:
    try:
        return f"user {pwd.getpwuid(number).pw_name}"
    except KeyError:
        return f"user {number}"


ELSEWHERE = (
    "put OUT on a local disk or NFS, and copy the dataset from there; give a bucket that is "
    "mounted as a folder by its URL, s3://…"
)
LOCKS = (
    "so two runs could publish over each other; mount it with locks (Lustre: -o flock; NFS: with "
    "lockd), or put OUT on another disk"
)


def check(out: Path) -> None:
    """ConfigError that names the first operation that a run needs and that fails in this folder;
    OSError if nothing can be written there."""
    # Its name marks it as a file that is being written (`local.is_temporary`).
    with tempfile.TemporaryDirectory("x.tmp", ".", out, ignore_cleanup_errors=True) as name:
        home = Path(name)
        new, old, folder = home / ".new.tmp", home / ".old.tmp", home / "folder"
        for path in (new, old):
            path.write_bytes(b"probe\n")
        folder.mkdir()
        (folder / ".in.tmp").write_bytes(b"")
        with _needed(out, "write a file through to its disk"):
            fsync(new)
            fsync(home)
        with _needed(out, "rename a file over another"):
            os.replace(new, old)
        with _needed(out, "rename a folder"):
            os.rename(folder, home / "renamed")
        with _needed(out, "change a file in place"), old.open("r+b", buffering=0) as file:
            file.truncate(1)
            os.pwrite(file.fileno(), b"again", 0)
        with old.open("r+b", buffering=0) as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                raise no_locks(out, error) from None


def no_locks(place: Path, error: OSError) -> ConfigError:
    """The error for a file system on which `flock` fails."""
    return ConfigError(f"the file system of {place} has no locks ({error.strerror}), {LOCKS}")


@contextmanager
def _needed(out: Path, what: str) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise ConfigError(
            f"the file system of OUT {out} cannot {what} ({error.strerror}); {ELSEWHERE}"
        ) from None
