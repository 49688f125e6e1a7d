"""The end of a container that states it: ASF (WMA) by the sizes of its objects, NUT by the index
that its writer puts last. Later bytes do not belong to it."""

from __future__ import annotations

import struct
from typing import BinaryIO

from ...recording.container import undisturbed

MOST = 1 << 20  # bytes searched at the end
_ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_ASF_OBJECT = 24  # bytes of an object's name and size
_MOST_OBJECTS = 100
_NUT_INDEX = b"NX\xddg/#\xe6N"
_LONG_PACKET = 4096  # bytes above which a header has its own checksum
_LONGEST_NUMBER = 10  # bytes


@undisturbed
def told_end(file: BinaryIO, size: int, kind: str) -> int | None:
    """The offset after the last byte of a container `kind` in a file of `size` bytes; None if it
    does not state its end, promises more bytes than there are, or another one follows."""
    if kind == "asf":
        return _asf(file, size)
    return _nut(file, size) if kind == "nut" else None


def _asf(file: BinaryIO, size: int) -> int | None:
    offset = 0
    for _ in range(_MOST_OBJECTS):
        file.seek(offset)
        head = file.read(_ASF_OBJECT)
        if offset and head.startswith(_ASF):
            return None
        length = int.from_bytes(head[16:], "little")
        if len(head) < _ASF_OBJECT or length < _ASF_OBJECT or offset + length > size:
            break
        offset += length
    return offset or None


def _nut(file: BinaryIO, size: int) -> int | None:
    start = max(size - MOST, 0)
    file.seek(start)
    data = file.read(MOST)
    place = data.rfind(_NUT_INDEX)
    if place < 0:
        return None
    place += len(_NUT_INDEX)
    length, width = 0, 0
    for byte in data[place : place + _LONGEST_NUMBER]:
        length, width = length << 7 | byte & 0x7F, width + 1
        if byte < 0x80:
            break
    end = start + place + width + (4 if length > _LONG_PACKET else 0) + length
    return end if end <= size else None


# Top-level boxes of an MP4 (ISO/IEC 14496-12, 4.2): two files joined into one.

MOST_BOXES = 10_000


@undisturbed
def is_joined(file: BinaryIO, size: int) -> bool:
    """Whether another file with its own index follows the first: FFmpeg reads only one index.
    Fragments have their index beside them, and are read."""
    offset, indexes = 0, 0
    for _ in range(MOST_BOXES):
        file.seek(offset)
        head = file.read(16)
        if len(head) < 16:
            break
        length, name = struct.unpack(">I4s", head[:8])
        if length == 1:
            length = int.from_bytes(head[8:], "big")
        if name == b"moof" or length < 8 or offset + length > size:
            break
        indexes += name == b"moov"
        offset += length
    return indexes > 1
