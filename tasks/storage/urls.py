"""Files named by sources, by URL or by path: status, listing, reading."""

from __future__ import annotations

import io
import os
import stat
from typing import BinaryIO, cast

from tasks.errors import ConfigError
from tasks.storage import copies
from tasks.storage.answers import ObjectState, state_of, store_errors
from tasks.storage.filesystem import FileSystem
from tasks.storage.local import stat_guard
from tasks.storage.places import is_url, no_library, normal


def files_of(url: str) -> tuple[FileSystem, str]:
    """fsspec's file system of a URL, and the path in it."""
    try:
        import fsspec

        found: tuple[FileSystem, str] = fsspec.core.url_to_fs(url, use_listings_cache=False)
        return found
    except (ImportError, ValueError) as error:
        raise ConfigError(no_library(url, error)) from None


def absolute(text: str) -> str:
    """An absolute path, links kept, or a normal URL. ConfigError as `places.normal`."""
    return normal(text) if is_url(text) else os.path.abspath(text)


def guard(text: str, file: BinaryIO | None = None) -> str:
    """A short text that changes whenever the bytes of a file or object may have changed; `file`: it
    is open. OSError if it cannot be reached."""
    if is_url(text):
        return object_state(text).guard
    return stat_guard(os.fstat(file.fileno()) if file else os.stat(text))


def status(text: str) -> os.stat_result:
    """`os.stat` of a path; of a URL only kind and size. FileNotFoundError."""
    if not is_url(text):
        return os.stat(text)
    files, key = files_of(text)
    with store_errors(text):
        entry = files.info(key)
    mode = stat.S_IFREG if entry["type"] == "file" else stat.S_IFDIR
    return os.stat_result((mode, 0, 0, 1, 0, 0, int(entry.get("size") or 0), 0, 0, 0))


def matching(pattern: str) -> list[str]:
    """URLs of the objects that match a pattern, in the byte order of their names."""
    files, key = files_of(pattern)
    with store_errors(pattern):
        found = files.glob(key, detail=True)
    scheme = pattern.split("://")[0]
    names = (name for name, entry in found.items() if entry["type"] == "file")
    return sorted((_url(scheme, name) for name in names), key=os.fsencode)


def _url(scheme: str, name: str) -> str:
    return name if is_url(name) else f"{scheme}://{name.lstrip('/')}"


def object_state(url: str) -> ObjectState:
    """FileNotFoundError if there is no such object."""
    files, key = files_of(url)
    with store_errors(url):
        entry = files.info(key)
    if entry["type"] != "file":
        raise FileNotFoundError(url)
    return state_of(entry)


def fetched(url: str, offset: int | None = None, length: int | None = None) -> BinaryIO:
    """A local copy of an object, or of a range of bytes of it, as it is now."""
    files, key = files_of(url)
    with store_errors(url):
        entry = state_of(files.info(key))
        return copies.cached(files, key, entry.guard, offset, length, entry.size)


def streamed(text: str) -> BinaryIO:
    """A file or object to read once from start to end; an object is fetched as it is read."""
    if not is_url(text):
        return open(text, "rb")
    files, key = files_of(text)
    with store_errors(text):
        file = files.open(key, "rb", block_size=1 << 20, cache_type="readahead")
    file.read = store_errors(text)(file.read)  # type: ignore[method-assign]  # each read is a request
    return file


def lined(text: str) -> BinaryIO:
    """A file or object to read line by line."""
    if not is_url(text):
        return open(text, "rb")
    return cast(BinaryIO, io.BufferedReader(cast(io.RawIOBase, fetched(text))))
