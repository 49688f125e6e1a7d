"""Requests to object stores: errors in our words, an object's state from a listing, and redirects.

Redirects are followed within one HTTP server, refused to any other, and never followed for S3. A
setting names a host: if it could redirect anywhere, it could read what only this machine can reach,
such as the internal services of a cloud.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from ..base.errors import RunError

if TYPE_CHECKING:
    import aiohttp

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
        """Whether this happened below a remote place: then nothing more is written there."""
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
        refuse_redirect(error)
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
        words = (str(error).strip().splitlines() or [type(error).__name__])[0][:300]
        if isinstance(error, PermissionError):
            raise Away(
                f"{what}: access is refused ({words}); check the account and its rights"
            ) from error
        if isinstance(error, OSError) or type(error).__module__.split(".")[0] in _NETWORK:
            raise Away(f"{what} cannot be reached: {words}") from error
        raise


@contextmanager
def asking(place: Path) -> Iterator[tuple[FileSystem, str]]:
    """The file system of a remote place, and the key in it; translates errors of requests."""
    with store_errors(place):
        yield files_in(place)


def _codes(error: BaseException | None) -> Iterator[str]:
    """The S3 error codes of an error and of its causes."""
    while error is not None:
        answer = getattr(error, "response", None)  # botocore's ClientError; may not be installed
        if isinstance(answer, dict):
            yield str(answer.get("Error", {}).get("Code"))
        error = error.__cause__


def state_of(entry: Entry) -> ObjectState:
    """Size and guard from fsspec's entry of an object; the guard is empty if nothing in it
    distinguishes versions."""

    def first(*names: str) -> str | datetime | None:
        return next((entry[name] for name in names if entry.get(name)), None)

    when = first("LastModified", "last_modified", "Last-Modified", "mtime", "updated")
    tag = first("ETag", "etag", "md5Hash", "Content-MD5", "content_md5")
    size = entry.get("size")
    if size is None or not (when or tag):
        return ObjectState(size or 0, "")
    changed = when.timestamp() if isinstance(when, datetime) else when or ""
    return ObjectState(int(size), f"{size}-{changed}-{str(tag or '').strip(chr(34))}")


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


class Redirected(OSError):
    """A server redirects to another one; `strerror` names both."""


async def _client(**options: Any) -> aiohttp.ClientSession:
    import aiohttp

    trace = aiohttp.TraceConfig()
    trace.on_request_redirect.append(_same_host)
    return aiohttp.ClientSession(trace_configs=[trace], **options)


async def _same_host(_: object, __: object, asked: aiohttp.TraceRequestRedirectParams) -> None:
    """Refuse a redirect to another scheme, host or port. aiohttp calls it before following."""
    from yarl import URL

    to = asked.response.headers.get("Location") or asked.response.headers.get("URI")
    origin = str(asked.url.origin())
    try:
        target = origin if to is None else str(asked.url.join(URL(to)).origin())
    except ValueError:
        target = "what is no address"
    if origin != target:
        asked.response.close()
        reason = f"{origin} redirects to {target}, and only a host that the settings name is asked"
        raise Redirected(errno.EACCES, reason)


def options(scheme: str) -> dict[str, Any]:
    """fsspec's options for a scheme. ImportError if its library is missing."""
    # Its listings cache would show an outdated state of the store.
    fresh = {"use_listings_cache": False}
    if scheme in ("http", "https"):  # follow a listing's links only to files below it
        return {**fresh, "get_client": _client, "same_scheme": False}
    if scheme in ("s3", "s3a"):
        from .s3_session import Staying

        return {**fresh, "config_kwargs": {"http_session_cls": Staying}}
    return fresh


def refuse_redirect(error: BaseException | None) -> None:
    """Raise the `Redirected` among an error's causes, if there is one."""
    while error is not None:
        if isinstance(error, Redirected):
            raise error
        error = error.__cause__
