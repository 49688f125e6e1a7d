"""Finds the start of a stream behind other bytes: a tag, the end of another download, or the rest
of a frame in which a recording was cut."""

from __future__ import annotations

import re
from itertools import islice
from typing import BinaryIO

from ...recording import file_kinds
from ...recording.container import undisturbed
from . import ogg_pages
from .flac_md5 import INFO_BYTES, STREAMINFO, info_in
from .mp3 import id3_length

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
