"""Breaks in an ADTS stream (ISO/IEC 13818-7, 6.2).

Each header holds the length of its frame, so the place of the next header shows whether bytes are
missing or extra. FFmpeg silently searches for another header.
"""

from __future__ import annotations

from typing import BinaryIO

from ...recording.container import undisturbed
from .mp3 import id3_length

_HEADER = 7
_BLOCK = 1 << 20
_LONGEST = 8191  # bytes of a frame
_ID3V1 = 128
_SEARCHED = 1 << 16  # bytes after a break within which frames must continue


@undisturbed
def first_break(file: BinaryIO, size: int) -> int | None:
    """Number of frames before the first break: another frame begins later than it should.

    None: frames follow each other to the end, or this is not an ADTS stream.
    """
    offset, count = id3_length(file), 0
    file.seek(offset)
    if not frame_bytes(file.read(_HEADER)):
        return None
    base, data = offset, b""
    while True:
        if offset - base + _LONGEST + _ID3V1 > len(data) and base + len(data) < size:
            file.seek(offset)
            base, data = offset, file.read(_BLOCK)
        head = data[offset - base : offset - base + 10]
        length = frame_bytes(head)
        if length:
            offset, count = offset + length, count + 1
        elif count and head.startswith(b"TAG"):
            offset += _ID3V1
        elif count and head.startswith(b"ID3") and len(head) == 10:
            offset += 10 + sum((byte & 0x7F) << 7 * (3 - i) for i, byte in enumerate(head[6:10]))
        else:
            break
    if count < 2:
        return None
    file.seek(max(offset - _LONGEST, 0))  # the last length may itself be wrong
    before = min(offset, _LONGEST)
    rest = file.read(before + _SEARCHED)
    return count if any(_goes_on(rest, i) for i in range(before + 1, len(rest))) else None


def _goes_on(data: bytes, offset: int) -> bool:
    """Whether two consecutive frames begin here."""
    length = frame_bytes(data[offset : offset + _HEADER])
    return bool(length and frame_bytes(data[offset + length : offset + length + _HEADER]))


def frame_bytes(head: bytes) -> int:
    """Length of an ADTS frame in bytes by its header; 0 if this is not a header."""
    if len(head) < _HEADER or head[0] != 0xFF or head[1] & 0xF6 != 0xF0 or head[2] >> 2 & 15 > 12:
        return 0
    length = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
    return length if length >= _HEADER else 0
