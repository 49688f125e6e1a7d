"""Places and files by path or by URL (`s3://bucket/key`).

A place is a `pathlib.Path`, or for a URL universal-pathlib's `UPath`, with the same operations;
read and write it through `storage.store_of`. Names of files in sources stay texts, because a path
need not be UTF-8. Nothing remote is imported before a URL is used.
"""

from __future__ import annotations

import atexit
import errno
import io
import math
import os
import posixpath
import re
import stat
import tempfile
import threading
from collections import OrderedDict
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO, cast

from ..base import masking
from ..base.errors import ConfigError, ItemError
from . import regular
from .bounds import MAX_LINE_BYTES, megabytes
from .local import stat_guard
from .store_errors import FileSystem, ObjectState, options, protocols, state_of, store_errors

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
#: Stores that settings may name. Other file systems of fsspec read this machine, or wrap another
#: one (`simplecache`, `zip`, `reference`, `local`).
SCHEMES = ("s3", "s3a", "gs", "gcs", "az", "abfs", "abfss", "oss", "hdfs", "hf", "http", "https")


def is_url(text: str) -> bool:
    return "://" in text and _SCHEME.match(text) is not None


def place(text: str) -> Path:
    """An absolute place. ConfigError as `checked`, or if a URL needs a library that is missing."""
    if text.startswith("file:///"):
        text = text.removeprefix("file://")
    if not is_url(checked(text)):
        return Path(os.path.abspath(text))
    text, scheme = normal(text), text.split("://")[0]
    try:
        import fsspec
        from upath import UPath

        fsspec.get_filesystem_class(scheme)
        path = UPath(text, **options(scheme))
    except (ImportError, ValueError) as error:
        raise ConfigError(_no_library(text, error)) from None
    return cast(Path, path)  # not a Path, but with the same operations; stores do the rest


def _no_library(text: str, error: Exception) -> str:
    scheme = text.split("://")[0]
    what = f"{scheme}:// needs a library that is not installed ({error})"
    return f"{what}; pip install 'uttermill[s3]' brings s3fs" if scheme == "s3" else what


def checked(text: str) -> str:
    """The unchanged path or URL from settings or a command. ConfigError for a URL that may contain
    credentials, which would be kept with the results, or that is malformed, or of no supported
    store."""
    if not masking.is_address(text) and "::" not in text.split("/")[0]:
        return text
    shown = masking.address(text)
    if shown != text or re.search("[?#]", text):
        raise ConfigError(
            f"the URL {shown!r} holds credentials, a query (`?`) or a fragment (`#`), which would "
            "be kept with results: give scheme://host/path alone, an account by the environment "
            "(AWS_ACCESS_KEY_ID, say), and `*` for `?` in a pattern; download what has only a "
            "signed link"
        )
    scheme = text.split(":")[0]
    if not is_url(text) or scheme not in SCHEMES or "::" in text:
        raise ConfigError(
            f"{text!r} is not the URL of a supported store: that begins with one of "
            f"{', '.join(SCHEMES)} and `://`, and has no chain (`::`); for a folder of this "
            f"name, write './{text}'"
        )
    return text


def normal(url: str) -> str:
    """A URL without a trailing slash, `.` or `..`; ConfigError without a bucket."""
    scheme, _, rest = url.partition("://")
    host, slash, key = rest.partition("/")
    if not host:
        raise ConfigError(f"the URL {url} does not name a bucket")
    key = posixpath.normpath(f"/{key}").lstrip("/") if slash else ""
    return f"{scheme}://{host}/{key}".rstrip("/")


def files_of(url: str) -> tuple[FileSystem, str]:
    """fsspec's file system of a URL, and the path in it. Avoids `fsspec.core.url_to_fs`, in which a
    `::` in a list's name would chain file systems."""
    scheme = url.split("://")[0]
    try:
        import fsspec

        file_system = fsspec.filesystem(scheme, **options(scheme))
    except (ImportError, ValueError) as error:
        raise ConfigError(_no_library(url, error)) from None
    return file_system, file_system._strip_protocol(url)


def absolute(text: str) -> str:
    """An absolute path, links kept, or a normal URL. ConfigError as `normal`."""
    return normal(text) if is_url(text) else os.path.abspath(text)


def real(text: str) -> str:
    """A path from settings with links resolved, or a normal URL. ConfigError as `checked`."""
    return normal(text) if is_url(checked(text)) else os.path.realpath(text)


def named(text: str) -> bool:
    """Whether anything has this name, even a broken link; for a URL, whether a usable object
    does."""
    if not is_url(text):
        return os.path.lexists(text)
    try:
        return bool(object_state(text).guard)
    except FileNotFoundError:
        return False


def state(text: str) -> ObjectState:
    """Size and guard of a file or object, without opening it. OSError if it is missing or not a
    file; ValueError if no file can have the name."""
    if is_url(text):
        return object_state(text)
    result = os.stat(text)
    if not stat.S_ISREG(result.st_mode):
        raise OSError(errno.EINVAL, "not a file", text)
    return ObjectState(result.st_size, stat_guard(result))


def guard(text: str) -> str:
    """`state`'s guard. OSError if it cannot be reached."""
    return object_state(text).guard if is_url(text) else stat_guard(os.stat(text))


def status(text: str) -> os.stat_result:
    """`os.stat` of a path; only kind and size for a URL. FileNotFoundError."""
    if not is_url(text):
        return os.stat(text)
    files, key = files_of(text)
    try:
        with store_errors(text):
            entry = files.info(key)
    except FileNotFoundError:
        raise FileNotFoundError(errno.ENOENT, "no such object or folder", text) from None
    mode = stat.S_IFREG if entry["type"] == "file" else stat.S_IFDIR
    return os.stat_result((mode, 0, 0, 1, 0, 0, int(entry.get("size") or 0), 0, 0, 0))


def matching(pattern: str) -> list[str]:
    """URLs of the objects that match a pattern, in the byte order of their names."""
    files, key = files_of(pattern)
    with store_errors(pattern):
        entries = files.glob(key, detail=True)
    scheme = pattern.split("://")[0]
    names = (name for name, entry in entries.items() if entry["type"] == "file")
    whole = (name if is_url(name) else f"{scheme}://{name.lstrip('/')}" for name in names)
    return sorted(whole, key=os.fsencode)


def object_state(url: str) -> ObjectState:
    """Size and guard of an object. FileNotFoundError if there is none."""
    files, key = files_of(url)
    with suppress(FileNotFoundError), store_errors(url):
        entry = files.info(key)
        if entry["type"] == "file":
            return state_of(entry)
    raise FileNotFoundError(errno.ENOENT, "no such object", url)


def fetched(url: str, offset: int | None = None, length: int | None = None) -> BinaryIO:
    """A local copy of the current state of an object, or of a range of its bytes."""
    files, key = files_of(url)
    with store_errors(url):
        entry = state_of(files.info(key))
        return cached(files, key, entry.guard, offset, length, entry.size)


def streamed(text: str, opener: regular.Opener = regular.read) -> BinaryIO:
    """A file or object to read once from start to end; an object is fetched as it is read."""
    if not is_url(text):
        return open(text, "rb", opener=opener)
    files, key = files_of(text)
    with store_errors(text):
        file = files.open(key, "rb", block_size=1 << 20, cache_type="readahead")
    file.read = store_errors(text)(file.read)  # each read is a request
    return cast(BinaryIO, file)


MOST_SKIPPED = 1 << 30  # bytes of a line over the limit; a list ends at a longer one
LEAST_OF_LINE = 32  # bytes: the least that a line counts, since short lines cost time too


def lines(text: str, opener: regular.Opener = regular.read) -> Iterator[tuple[int, str | None]]:
    """`numbered` for a list at a place."""
    if is_url(text):
        with io.BufferedReader(cast(io.RawIOBase, fetched(text))) as copied:
            yield from numbered(cast(BinaryIO, copied))
    else:
        with open(text, "rb", opener=opener) as file:
            yield from numbered(file)


def numbered(file: BinaryIO, most: float = math.inf) -> Iterator[tuple[int, str | None]]:
    """(number from 1, line) of a list without blank lines; None for a line over the limit, the last
    one if it is longer than MOST_SKIPPED. ItemError once it holds more than `most` bytes. Bytes
    that are not UTF-8 become surrogate escapes; only `\\n` and `\\r\\n` end a line, since
    transcripts may contain Unicode's other separators."""
    number, room = 0, most
    while chunk := file.readline(MAX_LINE_BYTES + 1):
        number += 1
        room -= max(len(chunk), LEAST_OF_LINE)
        if len(chunk) > MAX_LINE_BYTES and not chunk.endswith(b"\n"):
            left = MOST_SKIPPED
            while chunk and not chunk.endswith(b"\n") and min(left, room) >= 0:
                chunk = file.readline(MAX_LINE_BYTES)
                left, room = left - len(chunk), room - len(chunk)
            yield number, None
            if left < 0:  # no list: a sparse file may have 8 EB of zeros
                return
        else:
            if number == 1:
                chunk = chunk.removeprefix(b"\xef\xbb\xbf")
            line = chunk.rstrip(b"\r\n").decode("utf-8", "surrogateescape")
            if line.strip():
                yield number, line
        if room < 0:
            raise ItemError(
                "unreadable",
                f"it holds more than {megabytes(int(most))}, which is too much for the size of the "
                "file; the rest is not read",
            )


# Local copies of remote objects, for libraries that read files. Unnamed, so a kill leaves none. A
# process caches the most recently used; the guard of the object is part of a copy's key.


#: Bytes and files that a process caches, besides the last copy.
CACHED_BYTES, CACHED_FILES = 256 << 20, 64
BLOCK = 8 << 20
#: Where an unnamed open file can be opened again, with its own position.
_BY_NUMBER = "/proc/self/fd"

Key = tuple[str, str, int | None, int | None]


@dataclass(slots=True)
class _Copy:
    file: IO[bytes]
    size: int

    @property
    def path(self) -> str:
        unnamed = os.path.isdir(_BY_NUMBER)
        return f"{_BY_NUMBER}/{self.file.fileno()}" if unnamed else str(self.file.name)

    def opened(self) -> BinaryIO:
        return open(self.path, "rb", buffering=0)


_cached: OrderedDict[Key, _Copy] = OrderedDict()
_lock = threading.Lock()


@atexit.register
def close_all() -> None:
    """Close, and so remove, all copies."""
    with _lock:
        while _cached:
            _cached.popitem()[1].file.close()


def cached(
    files: FileSystem,
    key: str,
    guard: str,
    offset: int | None = None,
    length: int | None = None,
    size: int | None = None,
) -> BinaryIO:
    """A copy of an object, or of a range of bytes of it, opened for reading. `size`: bytes of the
    whole object, for a range without `length`."""
    name = (f"{protocols(files)[0]}://{key}", guard, offset, length)
    with _lock:
        if copied := _cached.get(name):
            _cached.move_to_end(name)
            return copied.opened()
    copy = _fetch(files, key, offset, length, size)
    if not guard:  # without it a change would go unnoticed
        try:
            return copy.opened()
        finally:
            copy.file.close()
    with _lock:
        if name in _cached:  # another thread was quicker
            copy.file.close()
            return _cached[name].opened()
        _cached[name] = copy
        while len(_cached) > 1 and (
            len(_cached) > CACHED_FILES
            or sum(file.size for file in _cached.values()) > CACHED_BYTES
        ):
            _cached.popitem(last=False)[1].file.close()
        return copy.opened()


def _fetch(
    files: FileSystem, key: str, offset: int | None, length: int | None, size: int | None
) -> _Copy:
    unnamed = os.path.isdir(_BY_NUMBER)
    file: IO[bytes] = tempfile.TemporaryFile() if unnamed else tempfile.NamedTemporaryFile()  # noqa: SIM115
    try:
        if offset is None:
            files.get_file(key, _Copy(file, 0).path)
        else:
            end = size if length is None else min(offset + length, size or 0)
            for low in range(offset, end or 0, BLOCK):
                file.write(files.cat_file(key, start=low, end=min(low + BLOCK, end or 0)))
            file.flush()
        return _Copy(file, os.fstat(file.fileno()).st_size)
    except BaseException:
        file.close()
        raise
