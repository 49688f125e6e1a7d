"""Streams of bare frames, each with its length in its header: finds the bytes before the first
frame and after the last, and breaks between ADTS frames."""

from __future__ import annotations

from collections.abc import Callable
from typing import BinaryIO, NamedTuple

from ...recording.container import undisturbed
from . import mp3
from .promise import told_end

MOST = 1 << 20  # bytes searched at either end
_IN_A_ROW = 3  # consecutive frames: one seems to begin every few thousand bytes by chance
_LONGEST_HEADER = 8
_TRANSPORT = 188
TAGS = (b"TAG", b"ID3", b"APETAGEX", b"LYRICSBEGIN")
_LONGEST_TAG = max(map(len, TAGS))  # of those names

_ADTS, _LONGEST_ADTS = 7, 8191  # bytes of a header; most of a frame
_ADTS_BLOCK = 1 << 20
_ID3V1 = 128
_SEARCHED = 1 << 16  # bytes after a break within which frames must continue


def adts_bytes(head: bytes) -> int:
    """Length of an ADTS frame (ISO/IEC 13818-7, 6.2) by its header; 0 if this is not a header."""
    if len(head) < _ADTS or head[0] != 0xFF or head[1] & 0xF6 != 0xF0 or head[2] >> 2 & 15 > 12:
        return 0
    length = (head[3] & 3) << 11 | head[4] << 3 | head[5] >> 5
    return length if length >= _ADTS else 0


def _ac3(head: bytes) -> int:
    """Length of a frame of AC-3 or E-AC-3 (ATSC A/52, 5.3 and E.1.2); 0 if this is not a header."""
    if len(head) < 6 or head[:2] != b"\x0b\x77":
        return 0
    if 10 < head[5] >> 3 <= 16:
        return 2 * ((head[2] & 7) << 8 | head[3]) + 2
    rate, size = head[4] >> 6, head[4] & 63
    if head[5] >> 3 > 10 or rate == 3 or size >= 2 * len(_KBPS):
        return 0
    kbps = _KBPS[size >> 1]
    return (4 * kbps, 2 * (kbps * 320 // 147 + (size & 1)), 6 * kbps)[rate]


_KBPS = (32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 448, 512, 576, 640)


def _wavpack(head: bytes) -> int:
    size = int.from_bytes(head[4:8], "little")
    return size + 8 if head[:4] == b"wvpk" and len(head) == 8 and size < MOST else 0


def _packet(head: bytes) -> int:
    return _TRANSPORT if head[:1] == b"G" else 0


#: FFmpeg's name of a container: how a frame begins in it, its length by its header, and how many
#: consecutive frames are needed.
_KINDS: dict[str, tuple[bytes, Callable[[bytes], int], int]] = {
    "aac": (b"\xff", adts_bytes, _IN_A_ROW),
    "ac3": (b"\x0b\x77", _ac3, _IN_A_ROW),
    "eac3": (b"\x0b\x77", _ac3, _IN_A_ROW),
    "mp3": (b"\xff", mp3.frame_bytes, _IN_A_ROW),
    "mpegts": (b"G", _packet, 5),
    "wv": (b"wvpk", _wavpack, 1),
}
#: In these, FFmpeg skips what follows the frames, or reports it as damage itself.
_LOOSE_END = ("mp3",)


class Edges(NamedTuple):
    """Bytes before the first frame of a file and after the last one, and whether the latter are
    tags."""

    before: int = 0
    after: int = 0
    tags: bool = False


@undisturbed
def edges(file: BinaryIO, size: int, kind: str) -> Edges:
    """The bytes around the frames of a file of `size` bytes, or behind a container that states its
    end; those in front count ID3 tags. 0 where there are none, or where they may be a damaged
    frame."""
    if end := told_end(file, size, kind):
        file.seek(end)
        return Edges(0, size - end, file.read(_LONGEST_TAG).startswith(TAGS))
    if kind not in _KINDS:
        return Edges()
    tags = mp3.id3_length(file)
    file.seek(tags)
    first = _first(file.read(MOST), kind, 0)
    before = tags + first if first else 0
    if kind in _LOOSE_END:
        return Edges(before)
    start = max(size - MOST, before)
    file.seek(start)
    data = file.read(size - start)
    end = _end(data, kind)
    if end is None or _may_be_a_frame(data, end, kind):
        return Edges(before)
    return Edges(before, len(data) - end, data.startswith(TAGS, end))


def _first(data: bytes, kind: str, start: int) -> int | None:
    """The start of the first frame that others follow."""
    magic, length, least = _KINDS[kind]
    place = data.find(magic, start)
    while place >= 0:
        end, count = place, 0
        while count < least and (step := length(data[end : end + _LONGEST_HEADER])):
            end, count = end + step, count + 1
            if end >= len(data):
                break
        if count >= least or (count and end == len(data)):
            return place
        place = data.find(magic, place + 1)
    return None


def _end(data: bytes, kind: str) -> int | None:
    """The end of the last frame that follows others; None if there is none, or it is cut short."""
    length = _KINDS[kind][1]
    end = None
    place = _first(data, kind, 0)
    while place is not None:
        while step := length(data[place : place + _LONGEST_HEADER]):
            place += step
        end = place
        place = _first(data, kind, place)
    return end if end is not None and end < len(data) else None


def _may_be_a_frame(data: bytes, end: int, kind: str) -> bool:
    """Whether the bytes after the last frame may be one more frame with a damaged header."""
    rest = data[end:]
    if rest.startswith(TAGS) or not any(rest):
        return False
    magic, length, _ = _KINDS[kind]
    before = data.rfind(magic, 0, end)
    while before >= 0 and before + length(data[before : before + _LONGEST_HEADER]) != end:
        before = data.rfind(magic, 0, before)
    return before >= 0 and len(rest) == end - before


@undisturbed
def first_break(file: BinaryIO, size: int) -> int | None:
    """Number of frames before the first break: another frame begins later than it should. None:
    frames follow each other to the end, or this is not an ADTS stream.

    FFmpeg silently searches for another header.
    """
    offset, count = mp3.id3_length(file), 0
    file.seek(offset)
    if not adts_bytes(file.read(_ADTS)):
        return None
    base, data = offset, b""
    while True:
        if offset - base + _LONGEST_ADTS + _ID3V1 > len(data) and base + len(data) < size:
            file.seek(offset)
            base, data = offset, file.read(_ADTS_BLOCK)
        head = data[offset - base : offset - base + 10]
        length = adts_bytes(head)
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
    file.seek(max(offset - _LONGEST_ADTS, 0))  # the last length may itself be wrong
    before = min(offset, _LONGEST_ADTS)
    rest = file.read(before + _SEARCHED)

    def goes_on(offset: int) -> bool:
        """Whether two consecutive frames begin here."""
        length = adts_bytes(rest[offset : offset + _ADTS])
        return bool(length and adts_bytes(rest[offset + length : offset + length + _ADTS]))

    return count if any(map(goes_on, range(before + 1, len(rest)))) else None
