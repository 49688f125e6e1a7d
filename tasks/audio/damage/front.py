"""Where a FLAC or Ogg stream or a WAV file begins that has other bytes before it: a tag, the end of
another download, or the rest of a frame in which a recording was cut."""

from __future__ import annotations

import re
from typing import BinaryIO

from tasks.audio.damage import ogg_pages
from tasks.audio.damage.flac_md5 import INFO_BYTES, STREAMINFO, info_in
from tasks.recording import file_kinds
from tasks.recording.container import undisturbed

MOST_BEFORE = 1 << 20  # bytes that are searched
#: First bytes of containers: FLAC in a damaged one is no stream of its own.
_CONTAINERS = (b"\x1aE\xdf\xa3", b"OggS", b"RIFF", b"RF64", b"FORM", b"caff", b"0&\xb2u", b"FLV\1")
_LONGEST = 16  # bytes of a frame's header
_MARKER = re.compile(re.escape(STREAMINFO[:4]) + b"[\x00\x80]" + re.escape(STREAMINFO[5:]))
_WAVE = re.compile(rb"RIFF.{4}WAVE", re.DOTALL)
_SYNC = re.compile(rb"\xff[\xf8\xf9]")


@undisturbed
def bytes_before(file: BinaryIO) -> tuple[int, str]:
    """Bytes before a stream, and its name. Before the marker of FLAC or, where there is no marker,
    before its first frame. 0: the file begins with a stream, holds none in its first MOST_BEFORE
    bytes, or is packed."""
    file.seek(0)
    data = file.read(MOST_BEFORE)
    head = data[: file_kinds.HEAD]
    if not head or file_kinds.packing(head) or head.startswith(_CONTAINERS) or head[4:8] == b"ftyp":
        return 0, ""
    if start := ogg_pages.first_page(data):
        return start, "Ogg stream"
    if wave := _WAVE.search(data):
        return wave.start(), "RIFF header"
    return _before_flac(data, head), "FLAC stream"


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
    """Whether a frame begins with these bytes (RFC 9639, 9.1): no reserved value, and the right
    checksum."""
    if len(header) < 6:
        return False
    size, rate, places, bits = header[2] >> 4, header[2] & 15, header[3] >> 4, header[3] >> 1 & 7
    if not size or rate == 15 or places > 10 or bits == 3 or header[3] & 1:
        return False
    ones = f"{header[4]:08b}".find("0")  # of a number in the manner of UTF-8
    if ones in (-1, 1):
        return False
    end = 4 + max(ones, 1) + {6: 1, 7: 2}.get(size, 0) + {12: 1, 13: 2, 14: 2}.get(rate, 0)
    crc = 0
    for byte in header[:end]:
        crc ^= byte
        for _ in range(8):
            crc = (crc << 1 ^ (0x07 if crc & 0x80 else 0)) & 0xFF
    return end < len(header) and crc == header[end]
