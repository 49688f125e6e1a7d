"""FLAC files (RFC 9639): their header, and the MD5 of their samples."""

import hashlib
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from ..base.arrays import Float32s
from ..recording.container import undisturbed
from .damage.mp3 import id3_length

DROP_WRONG = "crccheck+explode"  # FFmpeg drops frames whose checksum is wrong
INFO_BYTES = 42  # of a FLAC stream, up to the end of STREAMINFO
STREAMINFO = b"fLaC\0\0\0\x22"  # its start, if more metadata follow


@dataclass(frozen=True, slots=True)
class StreamInfo:
    """STREAMINFO: the format of all samples of a FLAC file. `md5` None: the encoder left it out."""

    rate: int
    channels: int
    bits: int
    frames: int | None
    md5: bytes | None

    @property
    def kind(self) -> str:
        """The sample format, in libsndfile's words."""
        names = {8: "pcm_s8", 16: "pcm_16", 24: "pcm_24"}
        return next((name for most, name in names.items() if self.bits <= most), "pcm_32")


@undisturbed
def flac_info(file: BinaryIO) -> StreamInfo | None:
    """STREAMINFO of a native FLAC file (RFC 9639, 8.2); None for anything else."""
    file.seek(id3_length(file))
    return info_in(file.read(INFO_BYTES))


def info_in(head: bytes) -> StreamInfo | None:
    """STREAMINFO in the first INFO_BYTES of a FLAC stream; None for anything else."""
    if head[:4] != b"fLaC" or len(head) < INFO_BYTES or head[4] & 0x7F:
        return None
    packed = int.from_bytes(head[18:26], "big")
    return StreamInfo(
        rate=packed >> 44,
        channels=(packed >> 41 & 7) + 1,
        bits=(packed >> 36 & 31) + 1,
        frames=packed & (1 << 36) - 1 or None,
        md5=head[26:42] if any(head[26:42]) else None,
    )


class Md5:
    """FLAC's MD5, over interleaved little-endian integers of the fewest bytes that hold the bits.

    `exact`: whether it can be compared, because float32 holds all bits of a sample (up to 24).
    """

    def __init__(self, info: StreamInfo) -> None:
        self._info = info
        self._md5 = hashlib.md5(usedforsecurity=False)
        self.exact = info.md5 is not None and info.bits <= 24

    def add(self, block: Float32s) -> None:
        if not self.exact:
            return
        # Exact: float32 holds every sample of up to 24 bits, and the factor is a power of two.
        whole = block * np.float32(2 ** (self._info.bits - 1))
        width = (self._info.bits + 7) // 8
        if width == 2:
            self._md5.update(np.ascontiguousarray(whole.astype("<i2")).data)
        else:
            bytes_of = whole.astype("<i4").reshape(-1, 1).view("u1")
            self._md5.update(bytes_of[:, :width].tobytes())

    def differs(self) -> bool:
        return self.exact and self._md5.digest() != self._info.md5
