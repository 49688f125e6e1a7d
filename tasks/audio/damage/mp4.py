"""Top-level boxes of an MP4 (ISO/IEC 14496-12, 4.2): two files joined into one."""

from __future__ import annotations

import struct
from typing import BinaryIO

from tasks.recording.container import undisturbed

MOST_BOXES = 10_000


@undisturbed
def is_joined(file: BinaryIO, size: int) -> bool:
    """Whether another file with an index of its own follows the first: FFmpeg reads one index.
    Fragments have theirs beside them, and are read on."""
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
