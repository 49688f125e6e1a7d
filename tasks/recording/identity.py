"""What a source lists: recordings, where their bytes lie, and the segments given with them."""

from __future__ import annotations

import json
import os
import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Locator:
    """Where the encoded bytes of a recording lie.

    A whole file (`path`), a byte range of one (`offset`, `length`: a tar member), or a cell of
    a Parquet file (`row`, `column`). `path` may hold surrogate escapes for names that are not
    UTF-8 (`os.fsdecode`); `dumps` keeps them, so that no name is mangled.
    """

    path: str
    offset: int | None = None
    length: int | None = None
    row: int | None = None
    column: str | None = None

    def dumps(self) -> str:
        held = ((field, getattr(self, field)) for field in self.__slots__)
        return json.dumps({field: value for field, value in held if value is not None})

    @classmethod
    def loads(cls, text: str) -> Locator:
        return cls(**json.loads(text))


@dataclass(frozen=True, slots=True)
class Segment:
    """A span of a recording that the source asks for; seconds, `end` None: to the end."""

    start: float
    end: float | None
    source_id: str | None = None
    text: str | None = None
    speaker: str | None = None
    language: str | None = None


@dataclass(frozen=True, slots=True)
class Recording:
    """One recording as listed. `path` is its name in the dataset: relative, unique, stable.

    `source_path` is the original path for people (an absolute path, or `archive.tar!member`).
    `guard` changes whenever the bytes may have changed: size, mtime in ns and inode of the file
    that holds them. `error` is (code, detail) where the listing itself shows that it is bad: a
    listed file that is missing, a Kaldi pipe.
    """

    path: str
    source_path: str
    locator: Locator
    size: int
    guard: str
    source_id: str | None = None
    text: str | None = None
    speaker: str | None = None
    language: str | None = None
    segments: tuple[Segment, ...] | None = None
    error: tuple[str, str] | None = None


@dataclass(frozen=True, slots=True)
class Ignored:
    """Something that a source leaves out on purpose, with the reason."""

    path: str
    reason: str


def guard(status: os.stat_result) -> str:
    """(size, mtime in ns, inode) of a file as text: cheap proof that it was not touched."""
    return f"{status.st_size}-{status.st_mtime_ns}-{status.st_ino}"


_ESCAPE = re.compile(rb"\\x([0-9a-f]{2})")


def printable(path: str) -> str:
    """A file name as valid UTF-8 for manifests; `original` gives the name back.

    A name stays as it is, whatever its script, unless it is not UTF-8 or holds what looks like an
    escape: then its other bytes become `\\xNN`, and so do all of its backslashes (`\\x5c`).
    """
    raw = os.fsencode(path)
    shown = raw.replace(b"\\", rb"\x5c").decode("utf-8", "backslashreplace")
    try:
        return shown if _ESCAPE.search(raw) else raw.decode("utf-8")
    except UnicodeDecodeError:
        return shown


def original(shown: str) -> str:
    """The file name that `printable` shows, as Python's file functions take it."""
    raw = shown.encode("utf-8", "surrogateescape")
    return os.fsdecode(_ESCAPE.sub(lambda found: bytes([int(found[1], 16)]), raw))
