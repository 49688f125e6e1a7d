"""Frames and tags of an MP3: compares the length and checksum in LAME's tag with the bytes."""

from functools import lru_cache
from typing import BinaryIO, NamedTuple

import numpy as np

from ...base.arrays import UInt16s
from ...recording.container import undisturbed

_ID3 = 10
FRAME = 1152  # most samples in a frame of layer III
_READ = 1 << 20  # bytes
_CRC_ROW = 512  # bytes per lane
_CRC_READ = _CRC_ROW * 8192  # bytes at a time
_TAG_ROOM = 1 << 16  # bytes in which the first frame of an MP3 has to begin after its ID3 tag


@undisturbed
def lame_fault(file: BinaryIO, size: int) -> str | None:
    """How the bytes of an MP3 contradict LAME's tag; None if they agree or there is no tag.

    The tag (http://gabriel.mp3-tech.org/mp3infotag.html) holds the length of the music and its
    CRC-16. A longer file was joined from several, and the tag describes the first only; mp3gain
    changes frames and not the tag.
    """
    xing = _xing(file)
    if xing is None:
        return None
    first, frame, tag = xing
    lame = _lame(tag)
    length = int.from_bytes(lame[28:32], "big")
    stored = int.from_bytes(lame[32:34], "big")
    length_of_first = frame_bytes(frame)
    if len(lame) < 36 or lame[:4] not in (b"LAME", b"Lavf", b"Lavc") or not stored or not length:
        return None
    end, gained = _without_tags(file, size)
    audio_bytes = end - first
    if audio_bytes < length:
        return f"LAME's tag promises {length} bytes of audio, but it has {audio_bytes}"
    if audio_bytes > length or gained or not length_of_first:
        return None
    crc = crc16(file, first + length_of_first, first + length)
    return None if crc == stored else "the checksum in LAME's tag does not match its audio"


@undisturbed
def ends_within_frame(file: BinaryIO, size: int) -> bool:
    """Whether the frames of an MP3 follow each other up to its end, and the last one is cut short:
    then only its end is missing, as after an interrupted download."""
    xing = _xing(file)
    if xing is None or _without_tags(file, size)[0] < size:  # tags at the end: nothing is missing
        return False
    offset, kind = xing.offset, _kind(xing.frame)
    while offset < size:
        file.seek(offset)
        data = file.read(_READ)
        place = 0
        while place + 4 <= len(data):
            head = data[place : place + 4]
            length = frame_bytes(head)
            if not length or _kind(head) != kind:
                return False
            place += length
        if not place:  # the file has shrunk meanwhile
            return False
        offset += place
        if offset < size <= offset + 4:
            return True
    return offset > size


def _kind(head: bytes) -> tuple[int, int]:
    """What all frames of an MP3 share: version, layer and rate."""
    return head[1] & 0xFE, head[2] & 0x0C


def encoder_delay(file: BinaryIO) -> int | None:
    """Samples before the music by LAME's tag, which decoders skip; None without a tag."""
    xing = _xing(file)
    lame = _lame(xing.tag) if xing else b""
    return int.from_bytes(lame[21:23], "big") >> 4 if len(lame) >= 24 else None


def _lame(tag: bytes) -> bytes:
    flags = int.from_bytes(tag[4:8], "big")
    offset = 8 + sum(size * (flags >> bit & 1) for bit, size in enumerate((4, 4, 100, 4)))
    return tag[offset : offset + 36]


@undisturbed
def has_frame_count(file: BinaryIO) -> bool:
    """Whether an MP3 begins with a Xing header that counts its frames."""
    xing = _xing(file)
    return xing is not None and bool(xing.tag[7] & 1)


class _Xing(NamedTuple):
    offset: int  # of the first frame
    frame: bytes  # its bytes, and some that follow
    tag: bytes  # from "Xing" or "Info" on, at least 8 bytes


def _xing(file: BinaryIO) -> _Xing | None:
    start = id3_length(file)
    file.seek(start)
    head = file.read(_TAG_ROOM)
    sync = next((i for i in range(len(head) - 4) if _is_layer3(head, i)), None)
    if sync is None:
        return None
    frame = head[sync : sync + 4096]
    side = (32 if frame[3] >> 6 != 3 else 17) if frame[1] & 8 else (17 if frame[3] >> 6 != 3 else 9)
    tag = frame[4 + side :]
    has_tag = tag[:4] in (b"Xing", b"Info") and len(tag) >= 8
    return _Xing(start + sync, frame, tag) if has_tag else None


def _is_layer3(data: bytes, offset: int) -> bool:
    head = data[offset : offset + 4]
    return head[0] == 0xFF and head[1] & 6 == 2 and frame_bytes(head) > 0


def frame_bytes(head: bytes) -> int:
    """Length of an MPEG audio frame (layer I, II or III) by its header; 0 if this is not a
    header."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE0 != 0xE0:
        return 0
    first = bool(head[1] & 8)  # MPEG-1; else 2 or 2.5
    low = not head[1] & 16  # 2.5
    layer = 4 - (head[1] >> 1 & 3)
    kbps = _KBPS[first, layer][head[2] >> 4] if layer < 4 else 0
    hz = _HZ[head[2] >> 2 & 3] // (1 if first else 4 if low else 2)
    if not kbps or not hz or (head[1] >> 3 & 3) == 1:
        return 0
    padding = head[2] >> 1 & 1
    if layer == 1:
        return 4 * (12 * kbps * 1000 // hz + padding)
    return (144 if first or layer == 2 else 72) * kbps * 1000 // hz + padding


_LOW_KBPS = (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0)
#: By MPEG-1 or not, and layer.
_KBPS = {
    (True, 1): (*range(0, 449, 32), 0),
    (True, 2): (0, 32, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 384, 0),
    (True, 3): (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0),
    (False, 1): (0, 32, 48, 56, 64, 80, 96, 112, 128, 144, 160, 176, 192, 224, 256, 0),
    (False, 2): _LOW_KBPS,
    (False, 3): _LOW_KBPS,
}
_HZ = (44100, 48000, 32000, 0)


def id3_length(file: BinaryIO) -> int:
    """Bytes of the ID3v2 tags at the start."""
    offset = 0
    while True:
        file.seek(offset)
        head = file.read(_ID3)
        if head[:3] != b"ID3" or len(head) < _ID3:
            return offset
        size = 0
        for byte in head[6:10]:
            size = size << 7 | byte & 0x7F
        offset += _ID3 + size + (_ID3 if head[5] & 0x10 else 0)


def _without_tags(file: BinaryIO, size: int) -> tuple[int, bool]:
    """(end of the audio before ID3v1 and APE tags, whether mp3gain changed the file)."""
    end, gained = size, False
    for _ in range(4):
        file.seek(max(end - 128, 0))
        if file.read(3) == b"TAG":
            end -= 128
            continue
        file.seek(max(end - 32, 0))
        foot = file.read(32)
        if foot[:8] != b"APETAGEX":
            break
        length = int.from_bytes(foot[12:16], "little") + (32 if foot[23] & 0x80 else 0)
        file.seek(max(end - length, 0))
        gained = gained or b"MP3GAIN" in file.read(min(length, 1 << 16)).upper()
        end = max(end - length, 0)
    return end, gained


@lru_cache(maxsize=1)
def _table() -> UInt16s:
    """CRC-16 of polynomial 8005, reflected, of each byte."""
    crc = np.arange(256, dtype=np.uint16)
    for _ in range(8):
        crc = np.where(crc & 1, crc >> 1 ^ 0xA001, crc >> 1).astype(np.uint16)
    return crc


@lru_cache(maxsize=1)
def _pairs() -> UInt16s:
    """CRC-16 of each pair of bytes, the first one low."""
    once = _table()[np.arange(1 << 16) & 0xFF] ^ (np.arange(1 << 16) >> 8).astype(np.uint16)
    twice: UInt16s = _table()[once & 0xFF] ^ (once >> 8)
    return twice


@lru_cache(maxsize=1)
def _after_row() -> tuple[UInt16s, UInt16s]:
    """A CRC after _CRC_ROW zero bytes, by its low and its high byte; a CRC is linear."""
    tables = []
    for shift in (0, 8):
        crc = (np.arange(256) << shift).astype(np.uint16)
        for _ in range(_CRC_ROW):
            crc = _table()[crc & 0xFF] ^ (crc >> 8)
        tables.append(crc)
    return tables[0], tables[1]


def crc16(file: BinaryIO, start: int, end: int) -> int:
    """LAME's CRC-16 of the bytes `start` to `end`: computed by rows in parallel, then combined."""
    table, pairs, (low, high) = _table(), _pairs(), _after_row()
    file.seek(start)
    crc, remaining = 0, end - start
    while remaining:
        data = file.read(min(remaining, _CRC_READ))
        if not data:
            break
        remaining -= len(data)
        rows = len(data) // _CRC_ROW
        if rows:
            grid = np.frombuffer(data, "<u2", rows * _CRC_ROW // 2).reshape(rows, _CRC_ROW // 2)
            lanes = np.zeros(rows, np.uint16)
            for column in np.ascontiguousarray(grid.T):
                lanes = pairs[lanes ^ column]
            for lane in lanes.tolist():
                crc = int(low[crc & 0xFF]) ^ int(high[crc >> 8]) ^ lane
        for byte in data[rows * _CRC_ROW :]:
            crc = int(table[(crc ^ byte) & 0xFF]) ^ crc >> 8
    return crc
