"""Translates errors of object stores, and reads an object's state from a listing."""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

from ..base.errors import RunError
from . import redirects

#: S3's error codes for a condition that fails, and for two conditional puts at the same time.
_CONDITION = {"PreconditionFailed", "ConditionalRequestConflict"}
_ARCHIVED = "InvalidObjectState"
_NO_ROOM = (errno.ENOSPC, errno.EDQUOT, errno.EMFILE)
#: Libraries whose errors mean that a store is unreachable or refuses access.
_NETWORK = {
    *("botocore", "aiobotocore", "aiohttp", "s3fs", "gcsfs", "google", "adlfs", "azure"),
    *("asyncio", "requests", "urllib3"),
}


class Away(RunError):
    """A store that cannot be reached, or refuses access; it may pass."""

    def is_of(self, place: Path) -> bool:
        """Whether this happened below a remote place: its library has tried for long enough, so
        that what else a run that ends would write there is left out."""
        key = getattr(place, "path", None)
        return key is not None and f"{key.rstrip('/')}/" in self.args[0]


class Archived(RunError):
    """An object in cold storage: it must be restored before it can be read."""


class ObjectState(NamedTuple):
    """The state of an object in a listing; `guard` changes whenever its bytes may have changed."""

    size: int
    guard: str


@contextmanager
def store_errors(what: object) -> Iterator[None]:
    """Wraps every request to a store: translates its errors into ours."""
    try:
        yield
    except Exception as error:
        redirects.refuse(error)
        if isinstance(error, FileNotFoundError | FileExistsError):
            raise
        codes = set(_codes(error))
        if codes & _CONDITION:
            raise FileExistsError(str(what)) from error
        if _ARCHIVED in codes:
            raise Archived(f"{what} is in cold storage; restore it") from error
        if isinstance(error, OSError) and error.errno in _NO_ROOM:
            raise RunError(
                f"{what} has no room on this machine: {error.strerror}; temporary copies lie in "
                f"{tempfile.gettempdir()} (TMPDIR)"
            ) from error
        if isinstance(error, PermissionError):
            raise Away(
                f"{what}: access is refused ({_short(error)}); check the account and its rights"
            ) from error
        if isinstance(error, OSError) or type(error).__module__.split(".")[0] in _NETWORK:
            raise Away(f"{what} cannot be reached: {_short(error)}") from error
        raise


@contextmanager
def asking(place: Path) -> Iterator[tuple[FileSystem, str]]:
    """The file system of a remote place, and the key in it; translates errors of requests into
    ours."""
    with store_errors(place):
        yield files_in(place)


def _codes(error: BaseException | None) -> Iterator[str]:
    """The S3 error codes of an error and of its causes."""
    while error is not None:
        answer = getattr(error, "response", None)  # botocore's ClientError; may not be installed
        if isinstance(answer, dict):
            yield str(answer.get("Error", {}).get("Code"))
        error = error.__cause__


def _short(error: Exception) -> str:
    return str(error).strip().splitlines()[0][:300] if str(error).strip() else type(error).__name__


def state_of(entry: Entry) -> ObjectState:
    """Size and guard from fsspec's entry of an object; the guard is empty if nothing in it
    distinguishes versions."""
    when = _first(entry, "LastModified", "last_modified", "Last-Modified", "mtime", "updated")
    tag = _first(entry, "ETag", "etag", "md5Hash", "Content-MD5", "content_md5")
    size = entry.get("size")
    if size is None or not (when or tag):
        return ObjectState(size or 0, "")
    changed = when.timestamp() if isinstance(when, datetime) else when or ""
    return ObjectState(int(size), f"{size}-{changed}-{str(tag or '').strip(chr(34))}")


def _first(entry: Entry, *names: str) -> str | datetime | None:
    return next((entry[name] for name in names if entry.get(name)), None)


def under(files: FileSystem, key: str) -> dict[str, ObjectState]:
    """All objects below a key of an fsspec file system, by relative name."""
    root = key.rstrip("/") + "/"
    with store_errors(key):
        entries = files.find(root, detail=True)
    return {
        name.removeprefix(root): state_of(entry)
        for name, entry in entries.items()
        if entry["type"] == "file" and name.startswith(root) and not name.endswith("/")
    }


#: A listing's entry: `name`, `size`, `type` (`file` or `directory`), and whatever else the store
#: returns.
Entry: TypeAlias = Mapping[str, Any]
#: `fsspec.AbstractFileSystem`, which has no types; keys have no scheme. Wrap calls in
#: `store_errors`.
FileSystem: TypeAlias = Any


def files_in(path: Path) -> tuple[FileSystem, str]:
    """fsspec's file system of a remote place, and the key in it."""
    remote: Any = path  # universal-pathlib's `UPath`
    return remote.fs, str(remote.path).rstrip("/")


def protocols(files: FileSystem) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)
