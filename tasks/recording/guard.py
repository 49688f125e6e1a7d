"""Guards: short texts that change whenever the bytes of a file or object may have changed: a local
file's size, mtime, inode and ctime, or what an object's store says. Only a file whose guard changed
is hashed again."""

import errno
import re
from typing import NamedTuple

from ..base.errors import UNREACHABLE, ItemError
from ..storage import urls
from ..storage.store_errors import ObjectState
from . import unreachable
from .locator import Locator, Recording, Segment
from .names import display_text

#: A local file's guard (`tasks.storage.local.stat_guard`). Group 1: without the ctime; group 2: the
#: mtime.
LOCAL_GUARD = re.compile(r"(\d+-(-?\d+)-\d+)-\d+")


def identity(guard: str) -> str:
    """A local file's guard without the ctime, which changes with the file's name. Other guards are
    returned unchanged."""
    local = LOCAL_GUARD.fullmatch(guard)
    return local[1] if local else guard


class FileState(NamedTuple):
    """Size in bytes and guard of a listed file; `error` is (code, detail) if it is unusable."""

    size: int = 0
    guard: str = ""
    error: tuple[str, str] | None = None


def file_state(path: str) -> FileState:
    """Size and guard of a listed file or object, without opening it. Never raises OSError."""

    def state_of() -> ObjectState:
        try:
            return urls.state(path)
        except OSError as error:
            if unreachable.passes(error):
                raise unreachable.item_error(error) from error
            raise

    try:
        state = unreachable.patience.read(state_of)
    except ValueError:  # a null byte, or a lone surrogate
        return FileState(error=("missing", "no file can have this name"))
    except ItemError as error:
        return FileState(error=(error.code, error.detail))
    except OSError as error:
        return FileState(error=stat_error(error))
    if not state.guard:
        detail = "its server tells neither its size nor when it changed"
        return FileState(error=("unsupported", detail))
    return FileState(state.size, state.guard)


def stat_error(error: OSError) -> tuple[str, str]:
    """(code, detail) of a failed `os.stat`: `missing` if nothing has the name; `unreachable` for a
    passing error, else `unreadable`."""
    gone = (errno.ENOENT, errno.ENOTDIR, errno.ELOOP, errno.ENAMETOOLONG)
    fault = UNREACHABLE if unreachable.passes(error) else "unreadable"
    code = "missing" if error.errno in gone else fault
    return code, error.strerror or "cannot be reached"


def display_path(path: str) -> str:
    """A path for people: absolute, links kept, valid UTF-8."""
    return display_text(urls.absolute(path))


_NOTHING = Segment(0, None)


def of_file(path: str, file: str, segment: Segment = _NOTHING) -> Recording:
    """The recording `path` of its source that is all of `file`, an absolute path or a URL, in its
    current state. `segment`: the source's data about it, with its length as `end`; add more by
    `dataclasses.replace`."""
    state = file_state(file)
    return Recording(
        path,
        display_path(file),
        Locator(file),
        state.size,
        state.guard,
        segment.source_id,
        segment.text,
        segment.speaker,
        segment.language,
        error=state.error,
        length=segment.end,
        labels=segment.labels,
    )
