"""Errors of the operating system in words: who owns a refused file, which disk is full."""

from __future__ import annotations

import errno
import grp
import os
import pwd
import re
import shutil
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

FULL = (errno.ENOSPC, errno.EDQUOT)
#: pyarrow names the file in these words alone.
_BY_ARROW = re.compile(r"Failed to open local file '(.+)'\. Detail: ")


@contextmanager
def naming(*places: Path) -> Iterator[None]:
    """If the disk is full and the error names no file, as that of a write does not, add the place
    with the least room."""
    try:
        yield
    except OSError as error:
        if error.errno in FULL and error.filename is None:
            error.filename = str(min(places, key=_room))
        raise


def _room(place: Path) -> float:
    try:
        return shutil.disk_usage(place).free
    except OSError:
        return float("inf")


def sentence(error: OSError) -> str:
    """What happened and where; for a full disk, a refused access, and a folder in the place of a
    file also the remedy."""
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
    """The error's words, without its number. For a full disk also where (the file that it names,
    else `path`) and what to do; for a refused access also who owns the file, or the nearest
    existing folder above it."""
    if error.errno in FULL:
        place = os.fsdecode(error.filename or path)
        words = os.strerror(error.errno)  # a library puts its own words into strerror
        return f"no space left on {place} ({words}): free some, then run it again to continue"
    words = error.strerror or str(error)
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
        remedy = f"ask {owner} to grant you, or a group that you share, the right to it"
        return (
            f"{words}: {path} belongs to {owner}, group {_group(status.st_gid)}, with mode "
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


def _group(number: int) -> str:
    try:
        return grp.getgrgid(number).gr_name
    except KeyError:
        return str(number)
