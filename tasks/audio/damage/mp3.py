"""Frames and tags of an MP3: the length and the checksum in LAME's tag against the bytes."""

from __future__ import annotations

from typing import BinaryIO, NamedTuple

from tasks.audio.damage.crc16 import crc16
from tasks.recording.container import undisturbed

_ID3 = 10
FRAME = 1152  # most samples of a frame of layer III
_READ = 1 << 20  # bytes
_TAG_ROOM = 1 << 16  # bytes in which the first frame of an MP3 has to begin after its ID3 tag


@undisturbed
def lame_fault(file: BinaryIO, size: int) -> str | None:
    """How the bytes of an MP3 contradict LAME's tag; None if they agree or there is no tag.

    The tag (http://gabriel.mp3-tech.org/mp3infotag.html) holds the length of the music and its
    CRC-16. A longer file was joined from several, and the tag describes the first only; mp3gain
    changes frames and not the tag.
    """
    found = _xing(file)
    if found is None:
        return None
    first, frame, tag = found
    flags = int.from_bytes(tag[4:8], "big")
    at = 8 + 4 * (flags & 1) + 4 * (flags >> 1 & 1) + 100 * (flags >> 2 & 1) + 4 * (flags >> 3 & 1)
    lame = tag[at : at + 36]
    length = int.from_bytes(lame[28:32], "big")
    stored = int.from_bytes(lame[32:34], "big")
    length_of_first = frame_bytes(frame)
    if len(lame) < 36 or lame[:4] not in (b"LAME", b"Lavf", b"Lavc") or not stored or not length:
        return None
    end, gained = _without_tags(file, size)
    held = end - first
    if held < length:
        return f"{length} bytes of audio promised, {held} there"
    if held > length or gained or not length_of_first:
        return None
    crc = crc16(file, first + length_of_first, first + length)
    return None if crc == stored else "its checksum is of other audio"


@undisturbed
def ends_within_frame(file: BinaryIO, size: int) -> bool:
    """Whether the frames of an MP3 follow each other up to its end, where the last one is cut
    short: what is missing then is missing there, as a download that broke off leaves it."""
    found = _xing(file)
    if found is None or _without_tags(file, size)[0] < size:  # tags at the end: that is there
        return False
    at, kind = found.at, _kind(found.frame)
    while at < size:
        file.seek(at)
        data = file.read(_READ)
        place = 0
        while place + 4 <= len(data):
            head = data[place : place + 4]
            length = frame_bytes(head)
            if not length or _kind(head) != kind:
                return False
            place += length
        if not place:  # the file has become shorter since
            return False
        at += place
        if at < size <= at + 4:
            return True
    return at > size


def _kind(head: bytes) -> tuple[int, int]:
    """What all frames of an MP3 share: version and layer, and the rate."""
    return head[1] & 0xFE, head[2] & 0x0C


@undisturbed
def has_frame_count(file: BinaryIO) -> bool:
    """Whether an MP3 begins with a Xing header that counts its frames."""
    found = _xing(file)
    return found is not None and bool(found.tag[7] & 1)


class _Xing(NamedTuple):
    at: int  # offset of the first frame
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
    known = tag[:4] in (b"Xing", b"Info") and len(tag) >= 8
    return _Xing(start + sync, frame, tag) if known else None


def _is_layer3(data: bytes, at: int) -> bool:
    return data[at] == 0xFF and frame_bytes(data[at : at + 4]) > 0


def frame_bytes(head: bytes) -> int:
    """Length of an MPEG layer III frame by its header; 0 if it is none."""
    if len(head) < 4 or head[0] != 0xFF or head[1] & 0xE6 != 0xE2:
        return 0
    first = bool(head[1] & 8)  # MPEG-1; else 2 or 2.5
    low = not head[1] & 16  # 2.5
    kbps = _KBPS[first][head[2] >> 4]
    hz = _HZ[head[2] >> 2 & 3] // (1 if first else 4 if low else 2)
    if not kbps or not hz or (head[1] >> 3 & 3) == 1:
        return 0
    return (144 if first else 72) * kbps * 1000 // hz + (head[2] >> 1 & 1)


_KBPS = {
    True: (0, 32, 40, 48, 56, 64, 80, 96, 112, 128, 160, 192, 224, 256, 320, 0),
    False: (0, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96, 112, 128, 144, 160, 0),
}
_HZ = (44100, 48000, 32000, 0)


def id3_length(file: BinaryIO) -> int:
    """Bytes of the ID3v2 tags in front."""
    at = 0
    while True:
        file.seek(at)
        head = file.read(_ID3)
        if head[:3] != b"ID3" or len(head) < _ID3:
            return at
        size = 0
        for byte in head[6:10]:
            size = size << 7 | byte & 0x7F
        at += _ID3 + size + (_ID3 if head[5] & 0x10 else 0)


def _without_tags(file: BinaryIO, size: int) -> tuple[int, bool]:
    """(where the audio ends before ID3v1 and APE tags, whether mp3gain was here)."""
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
