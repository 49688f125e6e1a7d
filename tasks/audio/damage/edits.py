"""Empty edits of an MP4's edit list (ISO/IEC 14496-12, 8.6.6) behind its first part: nothing is
played there, and FFmpeg, which heeds only those before it, gives other sounds in their place."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import BinaryIO

from ...recording.container import undisturbed

Span = tuple[float, float]  # s, in the film's time
MOST_BOXES = 10_000
_MOST_BYTES = 1 << 20  # of an edit list
_TIMESCALE = {0: 12, 1: 20}  # its offset in mvhd, by version


@undisturbed
def empty_edits(file: BinaryIO, size: int, track: int) -> list[Span]:
    """Those of an audio track, counted from 0; none if the index is not readable."""
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
