"""Guards: short texts that change whenever the bytes of a file or object may have changed.

A local file's guard is its size, mtime and inode; an object's is what its store says about the
version. Comparing guards is cheap; only a file whose guard changed is hashed again.
"""

from __future__ import annotations

import errno
from dataclasses import dataclass

from tasks.storage import urls


@dataclass(frozen=True, slots=True)
class FileState:
    """Size in bytes and guard of a listed file; `error` is (code, detail) if it is unusable."""

    size: int = 0
    guard: str = ""
    error: tuple[str, str] | None = None


def file_state(path: str) -> FileState:
    """Size and guard of a listed file or object, without opening it. Never raises OSError."""
    try:
        found = urls.state(path)
    except ValueError:  # a null byte, or a lone surrogate
        return FileState(error=("missing", "no file can have this name"))
    except OSError as error:
        return FileState(error=stat_error(error))
    if not found.guard:
        detail = "its server tells neither its size nor when it changed"
        return FileState(error=("unsupported", detail))
    return FileState(found.size, found.guard)


def stat_error(error: OSError) -> tuple[str, str]:
    """(code, detail) of a failed `os.stat`: `missing` if nothing is there, else `unreadable`."""
    gone = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
    code = "missing" if error.errno in gone else "unreadable"
    return code, error.strerror or "cannot be reached"
