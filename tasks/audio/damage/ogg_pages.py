"""Pages of an Ogg file: which are damaged or missing, and where joined files begin (RFC 3533).

libsndfile and FFmpeg silently skip pages whose checksum is wrong, and missing ones. Only the pages
themselves show it.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import BinaryIO, cast

from tasks.recording.container import Window, undisturbed

MAGIC = b"OggS"
OPUS = b"OpusHead"
_HEADER = 27
_HEAD = 64  # bytes in which a file names its codec
_LARGEST = 65_307  # bytes of a page
_BLOCK = 1 << 20
MOST_LINKS = 10_000  # joined files that are read
_NUMBERS = struct.Struct("<II")  # serial number of the stream, number of the page
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True, slots=True)
class Page:
    start: int  # offset of its first byte
    end: int
    begins: bool  # first page of a logical stream
    ends: bool  # last page of one
    serial: int
    number: int
    sound: bool  # its checksum is right
    junk: int  # bytes between the page before and this one


@dataclass(frozen=True, slots=True)
class Pages:
    """Damage and structure of a file. `links`: (offset, length) of the joined files in it."""

    faults: tuple[int, ...]  # offset of each damaged or missing page
    links: tuple[tuple[int, int], ...]
    tail_only: bool  # no sound page follows the first fault
    before_last: bool  # a fault lies between the last sound page and the sound one before it
    unended: tuple[int, int] | None  # the last sound page, if it does not end its stream
    opus: bool


@undisturbed
def scan(file: BinaryIO, size: int) -> Pages | None:
    """Read all pages; None if the file is not Ogg."""
    file.seek(0)
    head = file.read(_HEAD)
    if not head.startswith(MAGIC):
        return None
    faults: list[int] = []
    starts: list[int] = []
    expected: dict[int, int] = {}
    beginning, last_sound, end = False, 0, 0
    unended: tuple[int, int] | None = None
    for page in pages(file):
        if page.junk or not page.sound:
            faults.append(page.start)
        if not page.sound:
            continue
        if page.begins:
            if not beginning and len(starts) < MOST_LINKS:
                starts.append(page.start)
                expected = {}
            expected[page.serial] = page.number
        elif page.serial in expected and page.number != expected[page.serial] and not page.junk:
            faults.append(page.start)
        beginning = page.begins
        expected[page.serial] = page.number + 1 & 0xFFFFFFFF
        last_sound, end = page.start, page.end
        unended = None if page.ends else (last_sound, end)
    file.seek(end)
    if MAGIC in file.read(_LARGEST):  # the last page is cut short; without it, a tag may follow
        faults.append(end)
    starts = starts or [0]
    starts[0] = 0
    links = tuple((a, b - a) for a, b in zip(starts, [*starts[1:], size], strict=True))
    tail_only = bool(faults) and min(faults) > last_sound
    before_last = last_sound in faults
    return Pages(tuple(faults), links, tail_only, before_last, unended, OPUS in head)


def pages(file: BinaryIO) -> Iterator[Page]:
    """Complete pages in order; bytes between two count as junk of the second."""
    data, base, start, junk = b"", 0, 0, 0
    file.seek(0)
    while True:
        if len(data) - start < _LARGEST and (more := file.read(_BLOCK)):
            data, base, start = data[start:] + more, base + start, 0
            continue
        magic = data.find(MAGIC, start)
        if magic < 0 or magic + _HEADER > len(data):
            return
        junk, start = junk + magic - start, magic
        count = data[start + 26]
        body = start + _HEADER + count
        end = body + sum(data[start + _HEADER : body])
        if end > len(data):  # cut off, or its length is damaged
            start, junk = start + 4, junk + 4
            continue
        sound = data[start + 4] == 0 and _sound(data[start:end])
        if not sound and data.find(MAGIC, start + 4, end) >= 0:  # its length is damaged
            start, junk = start + 4, junk + 4
            continue
        serial, number = _NUMBERS.unpack_from(data, start + 14)
        begins, ends = bool(data[start + 5] & 2), bool(data[start + 5] & 4)
        yield Page(base + start, base + end, begins, ends, serial, number, sound, junk)
        start, junk = end, 0


def _sound(page: bytes) -> bool:
    """Whether the checksum holds."""
    return int.from_bytes(page[22:26], "little") == _checksum(page)


def _checksum(page: bytes) -> int:
    """CRC-32 of polynomial 04c11db7, bits not reflected, from 0.

    zlib's is the same with each byte's bits reversed, and with other first and last values.
    """
    blank = (page[:22] + bytes(4) + page[26:]).translate(_REVERSED)
    crc = zlib.crc32(blank, 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2)


class _Ended(Window):
    """A file with other bytes at `start`."""

    def __init__(self, file: BinaryIO, size: int, start: int, other: bytes) -> None:
        super().__init__(file, 0, size)
        self._start, self._other = start, other

    def _read_at(self, position: int, size: int) -> bytes:
        data = super()._read_at(position, size)
        low, high = (max(at - self._start, 0) for at in (position, position + len(data)))
        other = self._other[low:high]
        at = max(self._start - position, 0)
        return data[:at] + other + data[at + len(other) :] if other else data


@undisturbed
def ended(file: BinaryIO, size: int, page: tuple[int, int]) -> BinaryIO:
    """The same file, with the flag in this page that it is the last of its stream."""
    start, end = page
    file.seek(start)
    data = bytearray(file.read(end - start))
    data[5] |= 4
    data[22:26] = _checksum(bytes(data)).to_bytes(4, "little")
    return cast(BinaryIO, _Ended(file, size, start, bytes(data[:_HEADER])))
