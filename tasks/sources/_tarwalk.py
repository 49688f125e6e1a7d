"""Members of a plain tar, read header by header: forward only, nothing extracted. The standard
library decodes single headers; `TarFile.next` loops on negative sizes (CVE-2025-8194), allocates
whatever a long-name header claims, and keeps every member it has seen."""

from __future__ import annotations

import re
import tarfile
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO

from ..base.errors import ItemError
from ..recording.container import size_of

BLOCK = 512

MAX_EXTENSION_BYTES = 1 << 20  # a larger long-name or PAX header is damage, not a name
PADDING_BLOCKS = 40  # searched after the end mark for a second tar; tar pads to 20 blocks of zeros

_RECORD = re.compile(rb"([0-9]{1,7}) ")
_PAX = (tarfile.XHDTYPE, tarfile.SOLARIS_XHDTYPE)


@dataclass(frozen=True, slots=True)
class Member:
    """Data at `offset`, `size` in bytes. `kind`: file, sparse, folder, link, device or special."""

    name: str
    kind: str
    offset: int
    size: int


def head(file: BinaryIO) -> bytes:
    """The first block of a file."""
    file.seek(0)
    return file.read(BLOCK)


def is_tar(head: bytes) -> bool:
    """Whether the first block is the header of a tar."""
    try:
        _header(head)
    except tarfile.HeaderError:
        return False
    return True


def _header(block: bytes) -> tarfile.TarInfo:
    return tarfile.TarInfo.frombuf(block, "utf-8", "surrogateescape")


def members(file: BinaryIO) -> Iterator[Member]:
    """Complete members in order, up to the end mark. ItemError if the rest is lost (`truncated`,
    `unreadable`) or cannot be read by this walk (`unsupported`)."""
    total = size_of(file)
    position = 0
    name: str | None = None
    pax: dict[str, str] = {}
    while position < total:
        file.seek(position)
        try:
            header = _header(file.read(BLOCK))
        except tarfile.EOFHeaderError:  # type: ignore[attr-defined]
            _nothing_follows(file)
            return
        except tarfile.TruncatedHeaderError:  # type: ignore[attr-defined]
            raise ItemError("truncated", f"the tar breaks off at byte {position}") from None
        except tarfile.HeaderError:
            detail = f"no tar header at byte {position}; what follows is not read"
            raise ItemError("unreadable", detail) from None
        start = position + BLOCK
        if header.type in (tarfile.GNUTYPE_LONGNAME, tarfile.GNUTYPE_LONGLINK, *_PAX, b"g"):
            content = _extension(file, start, header.size, total)
            if header.type == tarfile.GNUTYPE_LONGNAME:
                name = content.split(b"\0", 1)[0].decode("utf-8", "surrogateescape")
            elif header.type in _PAX:
                pax = _records(content)
            position = start + -(-header.size // BLOCK) * BLOCK
            continue
        stated = pax.get("size", "")
        is_number = stated.isascii() and stated.isdigit() and len(stated) < 20
        size = int(stated) if is_number else header.size
        if size < 0:
            raise ItemError("unreadable", f"a negative size in the tar header at byte {position}")
        full = pax.get("path") or name or header.name
        kind = _kind(header, pax)
        if header.type == tarfile.GNUTYPE_SPARSE:
            # More headers may follow a sparse one; where its data ends is not worked out.
            detail = f"a sparse member at byte {position}; what follows is not read"
            raise ItemError("unsupported", detail)
        holds_data = header.isreg() or header.type not in tarfile.SUPPORTED_TYPES
        if holds_data and start + size > total:
            detail = f"{size} bytes are promised at byte {start}, {max(total - start, 0)} are there"
            raise ItemError("truncated", detail)
        yield Member(full, kind, start, size if holds_data else 0)
        position = start + (-(-size // BLOCK) * BLOCK if holds_data else 0)
        name, pax = None, {}
    # Only the missing end mark, which every closed tar has, shows a cut between two members.
    raise ItemError("truncated", f"the tar ends at byte {total} without an end mark")


def _nothing_follows(file: BinaryIO) -> None:
    """ItemError if a second tar follows the end mark (`cat a.tar b.tar`)."""
    for _ in range(PADDING_BLOCKS):
        position = file.tell()
        block = file.read(BLOCK)
        if any(block):
            try:
                _header(block)
            except tarfile.HeaderError:
                return
            detail = f"another tar follows the end mark, at byte {position}; it is not read"
            raise ItemError("unsupported", detail)


def _extension(file: BinaryIO, start: int, size: int, total: int) -> bytes:
    if not 0 <= size <= MAX_EXTENSION_BYTES:
        raise ItemError("unreadable", f"a tar header at byte {start} claims a name of {size} bytes")
    if start + size > total:
        raise ItemError("truncated", f"the tar breaks off at byte {start}")
    return file.read(size)


def _records(content: bytes) -> dict[str, str]:
    """PAX records `length key=value\\n`, up to the first damaged one, as other tar readers do."""
    fields: dict[str, str] = {}
    position = 0
    while record := _RECORD.match(content, position):
        end = position + int(record[1])
        key, equals, value = content[record.end() : end].removesuffix(b"\n").partition(b"=")
        if not equals or end > len(content):
            break
        fields[key.decode("utf-8", "surrogateescape")] = value.decode("utf-8", "surrogateescape")
        position = end
    return fields


def _kind(header: tarfile.TarInfo, pax: dict[str, str]) -> str:
    if any(key.startswith("GNU.sparse.") for key in pax):
        return "sparse"
    if header.isreg():
        return "file"
    if header.isdir():
        return "folder"
    if header.issym() or header.islnk():
        return "link"
    return "device" if header.isdev() else "special"
