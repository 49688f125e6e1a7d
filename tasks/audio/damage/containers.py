"""What containers say and FFmpeg does not heed.

Empty edits of an MP4's edit list (ISO/IEC 14496-12, 8.6.6) behind its first part: nothing is played
there, and FFmpeg, which heeds only those before it, gives other sounds in their place. Checksums of
a Matroska file's clusters (RFC 9559, 5.1.3 and RFC 8794, 11.3.1), which FFmpeg writes but does not
check; WebM has none.
"""

import struct
import zlib
from collections.abc import Iterator
from itertools import takewhile
from typing import BinaryIO

from ...recording.container import undisturbed

Span = tuple[float, float]  # s, in the film's time
MOST_BOXES = 10_000
_MOST_BYTES = 1 << 20  # of an edit list
_TIMESCALE = {0: 12, 1: 20}  # its offset in mvhd, by version


@undisturbed
def empty_edits(file: BinaryIO, size: int, track: int) -> list[Span]:
    """Those of an audio track of an MP4, counted from 0; none if the index is not readable."""
    try:
        return _of_index(file, size, track)
    except (struct.error, KeyError):
        return []


def _of_index(file: BinaryIO, size: int, track: int) -> list[Span]:
    ticks, sounds = 1, 0
    for _, start, end in (box for box in _boxes(file, 0, size) if box[0] == b"moov"):
        for kind, begin, close in _boxes(file, start, end):
            if kind == b"mvhd":
                file.seek(begin)
                head = file.read(24)
                (ticks,) = struct.unpack_from(">I", head, _TIMESCALE[head[0]])
            elif kind == b"trak" and _is_sound(file, begin, close):
                sounds += 1
                if sounds == track + 1:
                    return [(a / ticks, b / ticks) for a, b in _empty(file, begin, close)]
    return []


@undisturbed
def is_joined(file: BinaryIO, size: int) -> bool:
    """Whether another MP4 with its own index follows the first: FFmpeg reads only one index.
    Fragments have their index beside them, and are read."""
    kinds = takewhile(lambda kind: kind != b"moof", (box[0] for box in _boxes(file, 0, size)))
    return sum(kind == b"moov" for kind in kinds) > 1


def _boxes(file: BinaryIO, start: int, end: int) -> Iterator[tuple[bytes, int, int]]:
    """(kind, start of its content, end) of the boxes in a span of the file."""
    for _ in range(MOST_BOXES):
        file.seek(start)
        head = file.read(16)
        if start + 8 > end or len(head) < 8:
            return
        length, kind = struct.unpack(">I4s", head[:8])
        inner = start + (16 if length == 1 else 8)
        length = int.from_bytes(head[8:], "big") if length == 1 else length or end - start
        if start + length < inner:
            return
        yield kind, inner, min(start + length, end)
        start += length


def _inner(file: BinaryIO, start: int, end: int, *path: bytes) -> tuple[int, int] | None:
    for wanted in path:
        place = next((box[1:] for box in _boxes(file, start, end) if box[0] == wanted), None)
        if place is None:
            return None
        start, end = place
    return start, end


def _is_sound(file: BinaryIO, start: int, end: int) -> bool:
    if (handler := _inner(file, start, end, b"mdia", b"hdlr")) is None:
        return False
    file.seek(handler[0])
    return file.read(12)[8:] == b"soun"


def _empty(file: BinaryIO, start: int, end: int) -> Iterator[tuple[int, int]]:
    """(start, end) of each empty edit after the first that is not, in ticks of the film."""
    if (place := _inner(file, start, end, b"edts", b"elst")) is None:
        return
    file.seek(place[0])
    data = file.read(min(place[1] - place[0], _MOST_BYTES))
    form = ">Qqi" if data[:1] == b"\1" else ">Iii"
    (count,) = struct.unpack_from(">I", data, 4)
    position, begun = 0, False
    for number in range(min(count, (len(data) - 8) // struct.calcsize(form))):
        length, media, _ = struct.unpack_from(form, data, 8 + number * struct.calcsize(form))
        if media < 0 and begun:
            yield position, position + length
        begun, position = begun or media >= 0, position + length


_EBML, _SEGMENT, _INFO, _CLUSTER = 0x1A45DFA3, 0x18538067, 0x1549A966, 0x1F43B675
_CRC, _SCALE, _TIME = 0xBF, 0x2AD7B1, 0xE7
_LARGEST = 1 << 28  # bytes of a cluster up to which it is checked
_MOST_ELEMENTS = 10_000_000
_HEAD = 12  # bytes of an element's ID and size


@undisturbed
def damaged_spans(file: BinaryIO, size: int) -> list[tuple[float, float | None]]:
    """(start, end) of clusters with a wrong checksum, in s since the first cluster; the end is None
    for the file's last cluster. Empty for other files, and without checksums."""
    spans: list[tuple[float, float | None]] = []
    file.seek(0)
    if file.read(4) != _EBML.to_bytes(4, "big"):
        return spans
    scale, first, wrong_since = 1_000_000, None, None  # ns of a tick; times in s
    for kind, offset, length in _elements(file, 0, size):
        if kind == _INFO and length < _LARGEST:
            file.seek(offset)
            scale = _number(file.read(length), _SCALE) or scale
        if kind != _CLUSTER or length > _LARGEST:
            continue
        file.seek(offset)
        data = file.read(length)
        time = (_number(data[:64], _TIME) or 0) * scale / 1e9
        first = time if first is None else first
        if wrong_since is not None:
            spans.append((wrong_since, max(time - first, wrong_since)))
        stated = int.from_bytes(data[2:6], "little")
        right = data[0] != _CRC or data[1] != 0x84 or zlib.crc32(memoryview(data)[6:]) == stated
        wrong_since = None if right else time - first
    if wrong_since is not None:
        spans.append((wrong_since, None))
    return spans


def _elements(file: BinaryIO, offset: int, end: int) -> Iterator[tuple[int, int, int]]:
    """(ID, offset of the content, its length) of the elements of the segment."""
    for _ in range(_MOST_ELEMENTS):
        file.seek(offset)
        element = _element(file.read(_HEAD))
        if element is None or offset >= end:
            return
        kind, head, length = element
        offset += head
        if kind == _SEGMENT:
            continue
        if length is None:  # a live stream, whose clusters have no size and no checksum
            return
        yield kind, offset, length
        offset += length


def _element(data: bytes) -> tuple[int, int, int | None] | None:
    """(ID, bytes of ID and size, length; None: unknown); None if this is not an element."""
    width = _width(data[:1])
    wide = _width(data[width : width + 1])
    if not 1 <= width <= 4 or not wide or len(data) < width + wide:
        return None
    raw = int.from_bytes(data[width : width + wide], "big") & (1 << 7 * wide) - 1
    unknown = raw == (1 << 7 * wide) - 1
    return int.from_bytes(data[:width], "big"), width + wide, None if unknown else raw


def _width(first: bytes) -> int:
    """Length in bytes of a variable-length integer by its first byte; 0 if invalid."""
    return 9 - first[0].bit_length() if first and first[0] else 0


def _number(data: bytes, wanted: int) -> int | None:
    """The unsigned integer of the first element of an ID in a list of elements."""
    offset = 0
    while (element := _element(data[offset : offset + _HEAD])) is not None:
        kind, head, length = element
        if kind == wanted and length is not None:
            return int.from_bytes(data[offset + head : offset + head + length], "big")
        offset += head + (length or 0)
    return None
