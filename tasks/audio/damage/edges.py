"""What lies around a stream in its file: bytes before its start, and after its end."""

import re
from collections.abc import Callable
from itertools import islice
from typing import BinaryIO, NamedTuple

from ...recording import file_kinds
from ...recording.container import undisturbed
from ..flac import INFO_BYTES, STREAMINFO, info_in
from . import mp3, ogg_pages
from .mp3 import id3_length
from .promise import told_end

# Finds the start of a stream behind other bytes: a tag, the end of another download, or the rest of
# a frame in which a recording was cut.


MOST_BEFORE = 1 << 20  # bytes searched
_MOST_PLACES = 8  # places that look like the start of a container
_LONGEST = 16  # bytes of a frame's header
_MARKER = re.compile(re.escape(STREAMINFO[:4]) + b"[\x00\x80]" + re.escape(STREAMINFO[5:]))
_SYNC = re.compile(rb"\xff[\xf8\xf9]")
#: Starts of containers, by the name that notes use.
_SIGNATURES = {
    "RIFF header": rb"(?:RIFF|RIFX|RF64|BW64).{4}(?:WAVE|AVI )",
    "AIFF header": rb"FORM.{4}AIF[FC]",
    "W64 header": rb"riff\x2e\x91\xcf\x11\xa5\xd6\x28\xdb\x04\xc1\x00\x00",
    "CAF header": rb"caff\x00\x01\x00\x00desc",
    "AU header": rb"\.snd\x00\x00",
    "SPHERE header": rb"NIST_1A\n   1024\n",
    "MP4 header": rb"\x00\x00..ftyp",
    "Matroska header": rb"\x1aE\xdf\xa3",
    "ASF header": rb"0&\xb2u\x8ef\xcf\x11",
    "FLV header": rb"FLV\x01.\x00\x00\x00\x09",
    "WavPack stream": rb"wvpk.{4}.\x04",
    "TTA header": rb"TTA[12][\x01-\x03]\x00",
    "APE header": rb"MAC .[\x0e\x0f]",
    "AMR header": rb"#!AMR(?:-WB)?\n",
    "VOC header": rb"Creative Voice File\x1a",
    "transport stream": rb"(?:G.{187}){5}",
}
_BEGIN = re.compile(b"|".join(b"(%s)" % pattern for pattern in _SIGNATURES.values()), re.DOTALL)
#: First bytes of containers: FLAC inside a damaged one is not a stream of its own.
_CONTAINERS = (b"\x1aE\xdf\xa3", b"OggS", b"RIFF", b"RF64", b"FORM", b"caff", b"0&\xb2u", b"FLV\1")


@undisturbed
def tags_before(file: BinaryIO) -> int:
    """Bytes of the ID3 tags before a stream that has none of its own, that is any but MPEG and
    ADTS."""
    length = id3_length(file)
    file.seek(length)
    sync = file.read(2)
    return 0 if len(sync) < 2 or (sync[0] == 0xFF and sync[1] & 0xE0 == 0xE0) else length


@undisturbed
def beginnings(file: BinaryIO) -> list[tuple[int, str]]:
    """Places in a file at which a stream may begin behind other bytes, in order, each with the
    stream's name. Empty if the file begins with a stream, has none in its first MOST_BEFORE bytes,
    or is packed."""
    file.seek(0)
    data = file.read(MOST_BEFORE)
    head = data[: file_kinds.HEAD]
    begun = head.startswith(_CONTAINERS) or head[4:8] == b"ftyp" or _BEGIN.match(head)
    if not head or file_kinds.packing(head) or begun:
        return []
    places = [
        (match.start(), [*_SIGNATURES][(match.lastindex or 1) - 1])
        for match in islice(_BEGIN.finditer(data), _MOST_PLACES)
    ]
    if page := ogg_pages.first_page(data):
        places.append((page, "Ogg stream"))
    if frame := _before_flac(data, head):
        places.append((frame, "FLAC stream"))
    return sorted(places)


def _before_flac(data: bytes, head: bytes) -> int:
    for marker in _MARKER.finditer(data):
        info = info_in(data[marker.start() : marker.start() + INFO_BYTES])
        if info is not None and info.rate:
            return marker.start()
    if file_kinds.in_words(head) or head.startswith(STREAMINFO[:4]):
        return 0
    frames = (sync.start() for sync in _SYNC.finditer(data))
    return next((start for start in frames if _is_frame(data[start : start + _LONGEST])), 0)


def _is_frame(header: bytes) -> bool:
    """Whether these bytes begin a frame (RFC 9639, 9.1): no reserved value, and the right
    checksum."""
    if len(header) < 6:
        return False
    size, rate, places, bits = header[2] >> 4, header[2] & 15, header[3] >> 4, header[3] >> 1 & 7
    if not size or rate == 15 or places > 10 or bits == 3 or header[3] & 1:
        return False
    ones = f"{header[4]:08b}".find("0")  # of a UTF-8 coded number
    if ones in (-1, 1):
        return False
    end = 4 + max(ones, 1) + {6: 1, 7: 2}.get(size, 0) + {12: 1, 13: 2, 14: 2}.get(rate, 0)
    crc = 0
    for byte in header[:end]:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ (0x07 if crc & 0x80 else 0)) & 0xFF
    return end < len(header) and crc == header[end]


# Streams of bare frames, each with its length in its header: finds the bytes before the first frame
# and after the last, and breaks between ADTS frames.


MOST = 1 << 20  # bytes searched at either end
_IN_A_ROW = 3  # consecutive frames: one seems to begin every few thousand bytes by chance
_LONGEST_FRAME_HEADER = 8
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


#: FFmpeg's name of a container: how a frame begins in it, its length by its header, and how many
#: consecutive frames are needed.
_KINDS: dict[str, tuple[bytes, Callable[[bytes], int], int]] = {
    "aac": (b"\xff", adts_bytes, _IN_A_ROW),
    "ac3": (b"\x0b\x77", _ac3, _IN_A_ROW),
    "eac3": (b"\x0b\x77", _ac3, _IN_A_ROW),
    "mp3": (b"\xff", mp3.frame_bytes, _IN_A_ROW),
    "mpegts": (b"G", lambda head: _TRANSPORT if head[:1] == b"G" else 0, 5),
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
def around(file: BinaryIO, size: int, kind: str) -> Edges:
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
        while count < least and (step := length(data[end : end + _LONGEST_FRAME_HEADER])):
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
        while step := length(data[place : place + _LONGEST_FRAME_HEADER]):
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
    while before >= 0 and before + length(data[before : before + _LONGEST_FRAME_HEADER]) != end:
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
