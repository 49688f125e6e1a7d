"""Packed recordings: members of ZIP archives and of compressed tars."""

import gzip
import os
import posixpath
import shutil
import stat
import struct
import tempfile
import weakref
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import BinaryIO, cast

import pyarrow as pa

from ..base.errors import UNREACHABLE, ItemError
from ..storage import bounds
from ..storage.bounds import expanded
from .locator import Locator
from .unreachable import PositionedReader, item_error

# Members of ZIP archives: their entries in the archive's directory, and their bytes. The standard
# library holds all of the directory in memory, and refuses a whole archive for one unreadable name.


_END = struct.Struct("<4s4H2LH")
_END_64_PLACE = struct.Struct("<4sLQL")
_END_64 = struct.Struct("<4sQ2H2L4Q")
_ENTRY = struct.Struct("<4s6H3L5H2L")
_HEADER = struct.Struct("<4s5H3L2H")
_LONGEST_COMMENT = 1 << 16
_STORED, _DEFLATED = 0, 8
_METHODS = {9: "Deflate64", 12: "bzip2", 14: "LZMA", 93: "zstd", 95: "xz", 99: "AES encryption"}
_ENCRYPTED = 1
_LARGE = 0xFFFFFFFF  # the number is in the entry's extra field
_BLOCK = 1 << 20
#: Most bytes that a member's header takes.
HEADERS = _HEADER.size + 2 * 0xFFFF
_HELD = 64 << 20  # bytes of a member in memory; a larger one goes to an unnamed file
DAMAGED = "its checksum in the archive is another: it is damaged; get the archive again"


@dataclass(frozen=True, slots=True)
class Member:
    """A file in an archive, or what is none; `name` without `.` and `//`. `kind`: file, folder,
    link, device or special. `size`: unpacked, in bytes. `error`: (code, detail) if it cannot be
    read."""

    name: str
    kind: str
    locator: Locator
    size: int
    error: tuple[str, str] | None = None


def plain(name: str) -> str:
    """A member's name without `.` and `//`."""
    return posixpath.normpath(name) if name else ""


def entries(file: BinaryIO, place: Locator, most: int) -> Iterator[Member]:
    """Members of the archive at a place, in the order of its directory. ItemError if the directory,
    or the rest of it, cannot be read, or names more than `most` members."""
    start, size, shift = _directory(file)
    position, number = start, 0
    while position < start + size:
        number += 1
        if number > most:
            raise ItemError("unsupported", f"it names more than {most:,} members; unpack it")
        file.seek(position)
        head = file.read(_ENTRY.size)
        if len(head) < _ENTRY.size or head[:4] != b"PK\x01\x02":
            raise ItemError("unreadable", f"the archive's directory is damaged at byte {position}")
        fields = _ENTRY.unpack(head)
        lengths = fields[10:13]
        rest = file.read(sum(lengths))
        if len(rest) < sum(lengths):
            raise ItemError("truncated", f"the archive's directory breaks off at byte {position}")
        name, extra = rest[: lengths[0]], rest[lengths[0] : sum(lengths[:2])]
        yield _entry(fields, name, extra, shift, place)
        position += _ENTRY.size + len(rest)


def _directory(file: BinaryIO) -> tuple[int, int, int]:
    """Start of the directory, its size, and the offset of the archive in the file; bytes."""
    total = file.seek(0, os.SEEK_END)
    low = max(total - _LONGEST_COMMENT - _END.size, 0)
    file.seek(low)
    tail = file.read(total - low)
    place = tail.rfind(b"PK\x05\x06")
    if place < 0 or len(tail) - place < _END.size:
        raise ItemError("truncated", "a ZIP archive without its end: get it again")
    *_, size, offset, _ = _END.unpack_from(tail, place)
    end = low + place
    if large := _large_end(file, end):
        size, offset, end = large
    shift = end - size - offset
    if shift < 0:
        raise ItemError("truncated", "the archive's directory reaches beyond its end: get it again")
    return offset + shift, size, shift


def _large_end(file: BinaryIO, end: int) -> tuple[int, int, int] | None:
    """Size and offset of the directory from the 64-bit record, and that record's place; None if
    there is none. The record may lie behind its stated place, if something was put before the
    archive."""
    before = end - _END_64_PLACE.size
    if before < _END_64.size:
        return None
    file.seek(before)
    sign, _, where, _ = _END_64_PLACE.unpack(file.read(_END_64_PLACE.size))
    if sign != b"PK\x06\x07":
        return None
    for place in (where, before - _END_64.size):
        if place + _END_64.size <= before:
            file.seek(place)
            record = _END_64.unpack(file.read(_END_64.size))
            if record[0] == b"PK\x06\x06":
                return record[8], record[9], place
    return None


def _entry(
    fields: tuple[int, ...], name: bytes, extra: bytes, shift: int, place: Locator
) -> Member:
    _, system, _, flags, method, _, _, crc, packed, size, *_ = fields
    attributes, offset = fields[15:17]
    size, packed, offset = _large(extra, size, packed, offset)
    mode = attributes >> 16 if system >> 8 == 3 else 0  # of Unix archives
    kind = "folder" if name.endswith(b"/") else "link" if stat.S_ISLNK(mode) else "file"
    # Names are UTF-8, with or without the flag for it; others keep their bytes.
    shown = plain(name.split(b"\0", 1)[0].decode("utf-8", "surrogateescape"))
    where = replace(place, offset=offset + shift, length=packed, unpacked=size, crc=crc)
    return Member(shown, kind, where, size, _refusal(flags, method, packed, size))


def _large(extra: bytes, size: int, packed: int, offset: int) -> tuple[int, int, int]:
    """The three numbers; those that need 64 bits come from the extra field."""
    position = 0
    while position + 4 <= len(extra):
        tag, length = struct.unpack_from("<2H", extra, position)
        if tag == 1:
            count = min(length, len(extra) - position - 4) // 8
            numbers = iter(struct.unpack_from(f"<{count}Q", extra, position + 4))
            values = (size, packed, offset)
            size, packed, offset = (next(numbers, v) if v == _LARGE else v for v in values)
        position += 4 + length
    return size, packed, offset


def _refusal(flags: int, method: int, packed: int, size: int) -> tuple[str, str] | None:
    if flags & _ENCRYPTED:
        return "unsupported", "it is encrypted; unpack the archive"
    if method not in (_STORED, _DEFLATED):
        how = _METHODS.get(method, f"method {method}")
        return "unsupported", f"it is packed with {how}, which is not read; unpack the archive"
    if method == _STORED and size != packed:
        return "unreadable", "the archive's directory gives it two sizes"
    if size > expanded(packed):
        what = f"{packed:,} bytes would expand to {size:,}; unpack the archive if that is right"
        return "expands", what
    return None


def member(file: BinaryIO, locator: Locator) -> BinaryIO:
    """A member's bytes as a seekable file of its own. ItemError if they are damaged."""
    file.seek(locator.offset or 0)
    head = file.read(_HEADER.size)
    if len(head) < _HEADER.size or head[:4] != b"PK\x03\x04":
        raise ItemError("unreadable", "it is not where the archive's directory says; get it again")
    _, _, _, method, *_, name, extra = _HEADER.unpack(head)
    file.seek(name + extra, os.SEEK_CUR)
    copy = tempfile.SpooledTemporaryFile(_HELD)  # noqa: SIM115 - the caller closes it
    try:
        crc = size = 0
        for block in _blocks(file, method, locator.length or 0, locator.unpacked or 0):
            crc, size = zlib.crc32(block, crc), size + len(block)
            copy.write(block)
        if size != locator.unpacked or crc != locator.crc:
            raise ItemError("unreadable", DAMAGED)
        copy.seek(0)
        return cast(BinaryIO, copy)
    except BaseException:
        copy.close()
        raise


def _blocks(file: BinaryIO, method: int, packed: int, most: int) -> Iterator[bytes]:
    """Unpacked blocks, ending at most one block after `most` bytes."""
    unpack = zlib.decompressobj(-zlib.MAX_WBITS) if method == _DEFLATED else None
    left, given = packed, 0
    while left and given <= most:
        data = file.read(min(_BLOCK, left))
        if not data:
            return
        left -= len(data)
        while data and given <= most:
            try:
                block = unpack.decompress(data, _BLOCK) if unpack else data
            except zlib.error:
                raise ItemError("unreadable", DAMAGED) from None
            data = unpack.unconsumed_tail if unpack else b""
            given += len(block)
            yield block


# Compressed tars, whose members have no offset in the file: they are unpacked into an unnamed
# temporary file, which all readers of a process share.


#: Supported compressions, as named by `file_kinds.compression`.
PACKINGS = ("gzip", "zstd")
LEFT_FREE = 1 << 30  # bytes that stay free on the temporary folder's disk
_CHECKED = 64 << 20  # bytes between two checks of the free space
_TAR_BLOCK = 1 << 16  # bytes: at most this much before damage is lost


class Copy:
    """The unpacked bytes of a file. `wrong`: why they are not all. ItemError if the file cannot be
    read now, or there is no room."""

    def __init__(self, file: BinaryIO, packing: str) -> None:
        self.size = 0
        self.wrong: ItemError | None = None
        self._file = tempfile.TemporaryFile()  # noqa: SIM115 - closed with this object
        weakref.finalize(self, self._file.close)
        try:
            self._unpack(file, packing)
        except (OSError, EOFError, zlib.error) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise item_error(error) from error
            what = f"its {packing} stream is damaged after {self.size:,} unpacked bytes ({error})"
            self.wrong = ItemError("truncated", f"{what}; get it again")
        self._file.flush()

    def _unpack(self, file: BinaryIO, packing: str) -> None:
        most, room = bounds.expanded(file.seek(0, os.SEEK_END)), 0
        file.seek(0)
        stream = cast(
            BinaryIO,
            gzip.GzipFile(fileobj=file)
            if packing == "gzip"
            else pa.CompressedInputStream(pa.PythonFile(file, "r"), packing),
        )
        while block := stream.read1(_TAR_BLOCK):  # type: ignore[attr-defined]
            if self.size + len(block) > most:
                what = f"it expands to more than {bounds.megabytes(most)}"
                self.wrong = ItemError("expands", f"{what}; unpack it if that is right")
                return
            if self.size >= room:
                folder = tempfile.gettempdir()
                if shutil.disk_usage(folder).free < LEFT_FREE + _CHECKED:
                    what = f"no room in {folder} to unpack it; free some, set TMPDIR to a larger"
                    raise ItemError(UNREACHABLE, f"{what} disk, or unpack the archive")
                room = self.size + _CHECKED
            self._file.write(block)
            self.size += len(block)

    def read(self, position: int, size: int) -> bytes:
        return os.pread(self._file.fileno(), size, position)


class Unpacked(PositionedReader):
    """A compressed file, unpacked. `wrong`: why that is not all of it."""

    def __init__(self, copy: Copy) -> None:
        super().__init__()
        self._copy, self.wrong = copy, copy.wrong

    def _length(self) -> int:
        return self._copy.size

    def _read_at(self, position: int, size: int) -> bytes:
        return self._copy.read(position, size)
