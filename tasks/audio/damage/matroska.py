"""Checksums of a Matroska file's clusters (RFC 9559, 5.1.3 and RFC 8794, 11.3.1).

FFmpeg writes them but does not check them. WebM has none.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from typing import BinaryIO

from ...recording.container import undisturbed

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
        right = data[0] != _CRC or data[1] != 0x84 or _holds(data)
        wrong_since = None if right else time - first
    if wrong_since is not None:
        spans.append((wrong_since, None))
    return spans


def _holds(data: bytes) -> bool:
    return zlib.crc32(memoryview(data)[6:]) == int.from_bytes(data[2:6], "little")


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
