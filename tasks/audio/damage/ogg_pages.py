"""Pages of an Ogg file: which are damaged or missing, and where joined files begin (RFC 3533).

libsndfile and FFmpeg silently skip missing pages and pages with a wrong checksum. Only the pages
themselves show it.
"""

import struct
import zlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from io import BytesIO
from types import MappingProxyType
from typing import BinaryIO, cast

from ...recording.container import Window, undisturbed

MAGIC = b"OggS"
OPUS = b"OpusHead"
_HEADER = 27
_HEAD = 64  # bytes in which a file names its codec
_LARGEST = 65_307  # bytes of a page
_BLOCK = 1 << 20
#: Most bytes of an Opus packet that only signals a pause of the sender (DTX); WebRTC sends one.
PAUSE_BYTES = 2
NO_LEAPS: Mapping[int, int] = MappingProxyType({})
_JITTER = 120  # samples at 48 kHz by which a recorder's clock may be off
MOST_LINKS = 10_000  # joined files read
_NUMBERS = struct.Struct("<qII")  # granule, serial number of the stream, number of the page
_REVERSED = bytes(int(f"{byte:08b}"[::-1], 2) for byte in range(256))


@dataclass(frozen=True, slots=True)
class Page:
    start: int  # offset of its first byte
    end: int
    begins: bool  # first page of a logical stream
    ends: bool  # last page of one
    serial: int
    number: int
    sound: bool  # the checksum is right
    junk: int  # bytes between the previous page and this one
    granule: int  # time of its end in samples; -1: no packet ends in it
    lacing: bytes  # lengths of its segments; a packet ends with one below 255
    body: int  # offset of its packets in it


@dataclass(frozen=True, slots=True)
class Pages:
    """Damage and structure of a file. `links`: (offset, length) of the joined files in it."""

    faults: tuple[int, ...]  # offset of each damaged or missing page
    links: tuple[tuple[int, int], ...]
    tail_only: bool  # no good page follows the first fault
    before_last: bool  # a fault lies between the last two good pages
    unended: tuple[int, int] | None  # the last good page, if it does not end its stream
    opus: bool
    leaps: Mapping[int, int]  # samples at 48 kHz missing before an Opus packet, by its number
    junk: int  # bytes between pages, if none is missing


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
    beginning, ended, last_sound, end, junk = False, True, 0, 0, 0
    unended: tuple[int, int] | None = None
    opus, clock = OPUS in head, OpusClock()
    for page, data in pages(file):
        # A page with a damaged length looks like foreign bytes; the next page's number shows it.
        next_one = ended if page.begins else page.number == expected.get(page.serial)
        if not page.sound or (page.junk and not next_one):
            faults.append(page.start)
        if not page.sound:
            continue
        junk, ended = junk + page.junk, page.ends
        if page.begins:
            if not beginning and len(starts) < MOST_LINKS:
                starts.append(page.start)
                expected, clock = {}, OpusClock()
            expected[page.serial] = page.number
        elif page.serial in expected and page.number != expected[page.serial] and not page.junk:
            faults.append(page.start)
        if opus:
            clock.add(page, data)
        beginning = page.begins
        expected[page.serial] = page.number + 1 & 0xFFFFFFFF
        last_sound, end = page.start, page.end
        unended = None if page.ends else (last_sound, end)
    file.seek(end)
    if MAGIC in file.read(_LARGEST):  # the last page is cut short; anything else may be a tag
        faults.append(end)
    starts = starts or [0]
    starts[0] = 0
    links = tuple((a, b - a) for a, b in zip(starts, [*starts[1:], size], strict=True))
    tail_only = bool(faults) and min(faults) > last_sound
    before_last = last_sound in faults
    return Pages(
        tuple(faults),
        links,
        tail_only,
        before_last,
        unended,
        opus,
        {} if faults else clock.leaps,
        0 if faults else junk,
    )


def first_page(data: bytes) -> int | None:
    """The start of a stream in these bytes: the first page with a right checksum."""
    return next(
        (page.start for page, _ in pages(BytesIO(data)) if page.sound and page.begins), None
    )


def pages(file: BinaryIO) -> Iterator[tuple[Page, bytes]]:
    """Complete pages in order, with their bytes; bytes between two count as junk of the second."""
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
        stated = int.from_bytes(data[start + 22 : start + 26], "little")
        sound = data[start + 4] == 0 and _checksum(data[start:end]) == stated
        if not sound and data.find(MAGIC, start + 4, end) >= 0:  # its length is damaged
            start, junk = start + 4, junk + 4
            continue
        granule, serial, number = _NUMBERS.unpack_from(data, start + 6)
        begins, ends = bool(data[start + 5] & 2), bool(data[start + 5] & 4)
        lacing = data[start + _HEADER : body]
        places = base + start, base + end, begins, ends, serial, number, sound, junk
        yield Page(*places, granule, lacing, body - start), data[start:end]
        start, junk = end, 0


def _checksum(page: bytes) -> int:
    """CRC-32 of polynomial 04c11db7, bits not reflected, from 0: zlib's with each byte's bits
    reversed, and other initial and final values."""
    blank = (page[:22] + bytes(4) + page[26:]).translate(_REVERSED)
    crc = zlib.crc32(blank, 0xFFFFFFFF) ^ 0xFFFFFFFF
    return int(f"{crc:032b}"[::-1], 2)


class OpusClock:
    """Compares the times of Opus pages with the lengths of their packets (RFC 7845, 4): recorders
    of calls leave out what was not sent."""

    def __init__(self) -> None:
        self.leaps: dict[int, int] = {}
        self._packets = -2  # complete packets, without those of headers
        self._end = 0  # granule of the previous page
        self._open: int | None = None  # samples of the packet that continues on the next page
        self._size = 0  # bytes of that packet so far
        self._pausing = False  # the newest packet begins a pause

    def add(self, page: Page, data: bytes) -> None:
        lasting, offset, first = 0, page.body, self._packets
        pauses = [first] if self._pausing else []
        for length in page.lacing:
            if self._open is None:
                self._open, self._size = opus_samples(data[offset : offset + 2]), 0
            offset += length
            self._size += length
            if length < 255:
                self._packets += 1
                lasting, self._open = lasting + self._open, None
                self._pausing = self._size <= PAUSE_BYTES
                pauses += [self._packets] if self._pausing else []
        if page.granule < 0:
            return
        if self._pausing and pauses:
            pauses.pop()  # the next page's time shows it
        before, self._end = self._end, page.granule
        missing = page.granule - before - lasting
        if before and missing > _JITTER:  # headers are at 0, and a recording may begin late
            places = pauses or [first]
            for count, place in zip(range(len(places), 0, -1), places, strict=True):
                self.leaps[place] = missing // count
                missing -= missing // count


def opus_samples(packet: bytes) -> int:
    """Samples at 48 kHz of an Opus packet, from its first two bytes (RFC 6716, 3.1 and 3.2)."""
    if not packet:
        return 0
    kind, frames = packet[0] >> 3, (1, 2, 2, packet[-1] & 63)[packet[0] & 3]
    if kind < 12:
        length = (480, 960, 1920, 2880)[kind & 3]
    else:
        length = (480, 960)[kind & 1] if kind < 16 else 120 << (kind & 3)
    return frames * length


class _Ended(Window):
    """A file with some bytes replaced from `start` on."""

    def __init__(self, file: BinaryIO, size: int, start: int, other: bytes) -> None:
        super().__init__(file, 0, size)
        self._start, self._other = start, other

    def _read_at(self, position: int, size: int) -> bytes:
        data = super()._read_at(position, size)
        low, high = (max(place - self._start, 0) for place in (position, position + len(data)))
        other = self._other[low:high]
        lead = max(self._start - position, 0)
        return data[:lead] + other + data[lead + len(other) :] if other else data


@undisturbed
def ended(file: BinaryIO, size: int, page: tuple[int, int]) -> BinaryIO:
    """The same file, with this page flagged as the last of its stream."""
    start, end = page
    file.seek(start)
    data = bytearray(file.read(end - start))
    data[5] |= 4
    data[22:26] = _checksum(bytes(data)).to_bytes(4, "little")
    return cast(BinaryIO, _Ended(file, size, start, bytes(data[:_HEADER])))
