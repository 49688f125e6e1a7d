"""The part of fsspec's file systems that is used here; its own have no types."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol, TypeAlias, cast

#: What a listing says of an object: `name`, `size`, `type` (`file` or `directory`), and what else
#: the store tells.
Entry: TypeAlias = Mapping[str, Any]


class FileSystem(Protocol):
    """`fsspec.AbstractFileSystem`; keys are without the scheme. Calls belong in
    `store_errors.store_errors`."""

    protocol: str | tuple[str, ...]

    def info(self, path: str) -> Entry: ...

    def metadata(self, path: str) -> Mapping[str, str]:
        """s3fs only: what was stored with the object."""

    def ls(self, path: str, detail: bool) -> list[Entry]: ...

    def find(self, path: str, detail: bool) -> dict[str, Entry]: ...

    def glob(self, path: str, detail: bool) -> dict[str, Entry]: ...

    def open(self, path: str, mode: str, block_size: int, cache_type: str) -> BinaryIO: ...

    def cat(self, path: list[str]) -> dict[str, bytes]: ...

    def cat_file(self, path: str, start: int | None = None, end: int | None = None) -> bytes: ...

    def cat_ranges(
        self, paths: list[str], starts: list[int], ends: list[int], on_error: str
    ) -> list[bytes | Exception]: ...

    def get_file(self, rpath: str, lpath: str) -> None: ...

    def put_file(self, lpath: str, rpath: str, mode: str, **about: Mapping[str, str]) -> None: ...

    def pipe_file(self, path: str, value: bytes, mode: str) -> None: ...

    def cp_file(self, path1: str, path2: str) -> None: ...

    def rm(self, path: list[str]) -> None: ...

    def rm_file(self, path: str) -> None: ...


class _Remote(Protocol):
    """universal-pathlib's `UPath`."""

    fs: FileSystem
    path: str


def files_in(path: Path) -> tuple[FileSystem, str]:
    """fsspec's file system of a remote place, and the key in it."""
    remote = cast(_Remote, path)
    return remote.fs, str(remote.path).rstrip("/")


def protocols(files: FileSystem) -> tuple[str, ...]:
    return (files.protocol,) if isinstance(files.protocol, str) else tuple(files.protocol)
