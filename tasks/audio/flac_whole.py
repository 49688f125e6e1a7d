"""Short FLAC files whose MD5 proves every sample: decoded at once by libsndfile.

FFmpeg takes twice as long for a clip of some seconds. It would deliver the same samples and find no
fault, so whoever reads a file cannot tell which of the two decoded it. Where anything is odd (no
MD5, another MD5, frames behind those that the header counts, frames that contradict the header),
the file is left to FFmpeg.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator
from functools import cache
from typing import BinaryIO

import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from tasks.audio.flac_md5 import StreamInfo, flac_info
from tasks.audio.kinds import Header, Samples
from tasks.audio.opening import FRAMES_PER_BYTE
from tasks.recording.faults import Fault

MOST_VALUES = 1 << 21  # samples x channels: 8 MB of float32
MOST_BYTES = 1 << 23  # pictures and tags included
MOST_PROBED = 1 << 18  # bytes; FFmpeg looks at the first frame alone
SURE_FRAMES = 8  # with sound headers; FFmpeg wants one that decodes
_KINDS = {16: "pcm_16", 24: "pcm_24"}
#: Codes in a frame's header (RFC 9639, 9.1.1 to 9.1.4): its samples, its rate in Hz, the bits of a
#: sample, and in how many bytes behind its number samples and an unusual rate are written out.
_SIZES = (0, 192, 576, 1152, 2304, 4608, 0, 0, *(256 << power for power in range(8)))
_SIZE_BYTES = {6: 1, 7: 2}
_HZ = (88200, 176400, 192000, 8000, 16000, 22050, 24000, 32000, 44100, 48000, 96000)
_RATES = dict(enumerate(_HZ, 1))
_RATE_BYTES = {12: 1, 13: 2, 14: 2}
_BITS = {1: 8, 2: 12, 4: 16, 5: 20, 6: 24, 7: 32}
_LONGEST_HEADER = 16  # bytes of a frame's header


class Whole:
    """Decoder of a file that is decoded already."""

    def __init__(self, samples: Samples, header: Header) -> None:
        self._samples, self.header = samples, header
        self.faults: list[Fault] = []

    def read(self, frames: int) -> Iterator[Samples]:
        for at in range(0, len(self._samples), frames):
            yield self._samples[at : at + frames]

    def skip_to(self, sample: int) -> bool:
        return False

    def close(self) -> None:
        pass


def proved(file: BinaryIO, size: int) -> Whole | None:
    """A decoder of a short native FLAC file of 16 or 24 bits, if the MD5 in it is that of its
    samples; None leaves the file, at its start, to another decoder."""
    info = _short(file, size)
    if info is None or info.md5 is None or _frames(file, info) is None:
        return None
    integers = _decoded(file, info)
    file.seek(0)
    if integers is None:
        return None
    samples = integers.astype(np.float32)
    samples *= np.float32(1 / 32768 if info.bits == 16 else 1 / 2147483648)
    return Whole(samples, _header(info))


def promised(file: BinaryIO, size: int) -> Whole | None:
    """The same with its header alone, and no samples, where the headers of its frames leave no
    doubt that most of them decode; None leaves the file, at its start, to another decoder."""
    info = _short(file, size) if size <= MOST_PROBED else None
    if info is None or (_frames(file, info) or 0) < SURE_FRAMES:
        return None
    return Whole(np.zeros((0, info.channels), np.float32), _header(info))


def _short(file: BinaryIO, size: int) -> StreamInfo | None:
    """STREAMINFO of a file that can be held."""
    info = flac_info(file) if size <= MOST_BYTES else None
    if info is None or info.frames is None or info.bits not in _KINDS:
        return None
    held = info.frames * info.channels <= MOST_VALUES
    return info if held and info.frames <= size * FRAMES_PER_BYTE else None


def _header(info: StreamInfo) -> Header:
    name = f"flac/{_KINDS[info.bits]}"
    return Header(info.rate, info.channels, info.frames, name, "soundfile")


def _decoded(file: BinaryIO, info: StreamInfo) -> NDArray[np.int16] | NDArray[np.int32] | None:
    """[frames, channels], 24 bits in the upper ones of 32; None: they are not those of the MD5."""
    kind = "int16" if info.bits == 16 else "int32"
    named = isinstance(file, io.FileIO)
    try:
        with sf.SoundFile(file.fileno() if named else file, closefd=False) as opened:
            integers: NDArray[np.int16] | NDArray[np.int32] = opened.read(
                dtype=kind, always_2d=True
            )
    except sf.SoundFileError:
        return None
    if integers.shape != (info.frames, info.channels):
        return None
    held = np.ascontiguousarray(integers, integers.dtype.newbyteorder("<")).view(np.uint8)
    if info.bits == 24:
        held = np.ascontiguousarray(held.reshape(-1, 4)[:, 1:])
    return integers if hashlib.md5(held.data, usedforsecurity=False).digest() == info.md5 else None


def _frames(file: BinaryIO, info: StreamInfo) -> int | None:
    """How many frames there are, if they follow each other up to the last sample that the file's
    header counts, none is left over, and all are as that header says: libsndfile stops at that
    sample, and trusts the header with rate and channels. Else None.

    Bytes within a frame that look like another frame's header may give None, too.
    """
    data = file.read()
    file.seek(0)
    if data[:4] != b"fLaC" or data[5:8] != b"\0\0\x22":  # tags before it, or odd ones
        return None
    first, expected, count = _first_frame(data), 0, 0
    usual = int.from_bytes(data[10:12], "big")  # samples of each frame but the last one
    sync = data[first : first + 2]
    if first < 0 or sync not in (b"\xff\xf8", b"\xff\xf9"):
        return None
    rest = np.frombuffer(data, np.uint8)[first:]
    for at in (first + np.flatnonzero((rest[:-1] == sync[0]) & (rest[1:] == sync[1]))).tolist():
        found = _frame(data[at : at + _LONGEST_HEADER], info)
        if found is not None:
            number, length = found
            # Frames of several lengths are numbered by their first sample.
            if (number if sync[1] & 1 else number * usual) != expected or not length:
                return None
            expected, count = expected + length, count + 1
    return count if expected == info.frames else None


def _first_frame(data: bytes) -> int:
    """Where the metadata ends (RFC 9639, 8.1); -1 if there is more than padding, data of
    applications, seek points and tags: FFmpeg refuses some of those that libsndfile does not read.
    """
    at, last = 42, bool(data[4] & 0x80)
    while not last and at + 4 <= len(data):
        last = bool(data[at] & 0x80)
        if data[at] & 0x7F not in (1, 2, 3, 4):
            return -1
        at += 4 + int.from_bytes(data[at + 1 : at + 4], "big")
    return at


def _frame(head: bytes, info: StreamInfo) -> tuple[int, int] | None:
    """A frame's number and samples by its header (RFC 9639, 9.1), no samples where that contradicts
    the file's; None: these bytes are no header of a frame."""
    if len(head) < 6:
        return None
    extra = 0
    while head[4] << extra & 0x80:
        extra += 1
    if extra == 1 or extra > 7:
        return None
    number, at = head[4] & 0x7F >> extra, max(4 + extra, 5)
    for byte in head[5:at]:
        number = number << 6 | byte & 0x3F
    size_code, rate_code, bits_code = head[2] >> 4, head[2] & 15, head[3] >> 1 & 7
    count = _SIZE_BYTES.get(size_code, 0)
    length = int.from_bytes(head[at : at + count], "big") + 1 if count else _SIZES[size_code]
    at += count + _RATE_BYTES.get(rate_code, 0)
    if at >= len(head) or _crc8(head[:at]) != head[at]:
        return None
    channels = head[3] >> 4
    told = channels + 1 if channels < 8 else 2 if channels < 11 else 0
    rate = _RATES.get(rate_code) if rate_code else info.rate
    bits = _BITS.get(bits_code) if bits_code else info.bits
    same = (told, rate, bits) == (info.channels, info.rate, info.bits)
    return number, length if same else 0


@cache
def _table() -> bytes:
    """CRC-8 of polynomial 07, of each byte."""
    crcs = list(range(256))
    for _ in range(8):
        crcs = [(crc << 1 ^ 7 if crc & 0x80 else crc << 1) & 0xFF for crc in crcs]
    return bytes(crcs)


def _crc8(data: bytes) -> int:
    table, crc = _table(), 0
    for byte in data:
        crc = table[crc ^ byte]
    return crc
