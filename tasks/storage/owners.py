"""Who owns what this user may not use, in words."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path


def told(error: OSError, path: str | Path) -> str:
    """The error's words, without its number. If access was refused, also to whom the file that it
    names belongs (else `path`, or the nearest folder above it that is there), and what to do."""
    said = error.strerror or str(error)
    if not isinstance(error, PermissionError):
        return said
    path = Path(os.fsdecode(error.filename or path))
    with suppress(OSError):  # a folder above it may not be looked into
        while not os.path.lexists(path) and path != path.parent:
            path = path.parent
        status = os.lstat(path)
        owner, us = _user(status.st_uid), _user(os.geteuid())
        remedy = f"let {owner} give you, or a group that you share, the right to it"
        return (
            f"{said}: {path} belongs to {owner}, group {_group(status.st_gid)}, with mode "
            f"{stat.filemode(status.st_mode)}, and this is {us}; "
            + ("chmod it" if owner == us else remedy)
        )
    return said


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
