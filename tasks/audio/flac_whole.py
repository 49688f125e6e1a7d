"""Short FLAC files whose MD5 proves every sample: read once, and decoded in one call.

FFmpeg's FLAC decoder gets the frames without a demuxer, which takes half as long again for a clip
of some seconds. The usual way through FFmpeg would deliver the same samples and find no fault, so
whoever reads a file cannot tell which of the two decoded it. Where anything is odd (no MD5, another
MD5, frames behind those that the header counts, frames that contradict the header), the file is
left to the usual way.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from functools import cache, lru_cache
from typing import BinaryIO, NamedTuple

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext

from tasks.arrays import Int32s
from tasks.audio.flac_md5 import INFO_BYTES, StreamInfo, info_in
from tasks.audio.kinds import Decoder, Header, Samples
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
#: In how many bytes size and rate are written out, by the byte with their codes.
_WRITTEN_OUT = bytes(
    _SIZE_BYTES.get(codes >> 4, 0) + _RATE_BYTES.get(codes & 15, 0) for codes in range(256)
)


class Whole(Decoder):
    """Decoder of a file that is decoded already."""

    def __init__(self, samples: Samples, header: Header) -> None:
        self._samples, self.header = samples, header
        self.faults: list[Fault] = []

    def read(self, frames: int) -> Iterator[Samples]:
        for at in range(0, len(self._samples), frames):
            yield self._samples[at : at + frames]

    def close(self) -> None:
        pass


class _Short(NamedTuple):
    """A file that can be held: all its bytes, where its frames begin, and how many there are."""

    data: bytes
    info: StreamInfo
    first: int
    frames: int


def proved(file: BinaryIO, size: int) -> Whole | None:
    """A decoder of a short native FLAC file of 16 or 24 bits, if the MD5 in it is that of its
    samples; None leaves the file, at its start, to another decoder."""
    short = _short(file, size, MOST_BYTES)
    samples = None if short is None or short.info.md5 is None else _decoded(short)
    return None if samples is None or short is None else Whole(samples, _header(short.info))


def promised(file: BinaryIO, size: int) -> Whole | None:
    """The same with its header alone, and no samples, where the headers of its frames leave no
    doubt that most of them decode; None leaves the file, at its start, to another decoder."""
    short = _short(file, size, MOST_PROBED)
    if short is None or short.frames < SURE_FRAMES:
        return None
    return Whole(np.zeros((0, short.info.channels), np.float32), _header(short.info))


def _short(file: BinaryIO, size: int, most: int) -> _Short | None:
    """A file of at most so many bytes, if nothing about its headers is odd."""
    if size > most:
        return None
    try:
        data = file.read(INFO_BYTES)
        info = info_in(data)
        if info is None or info.frames is None or info.bits not in _KINDS:
            return None
        if info.frames * info.channels > MOST_VALUES or info.frames > size * FRAMES_PER_BYTE:
            return None
        data += file.read(size - len(data))
    finally:
        file.seek(0)
    if len(data) < size or data[5:8] != b"\0\0\x22":
        return None
    first = _first_frame(data)
    frames = None if first < 0 else _frames(data, first, info)
    return None if frames is None else _Short(data, info, first, frames)


def _header(info: StreamInfo) -> Header:
    name = f"flac/{_KINDS[info.bits]}"
    return Header(info.rate, info.channels, info.frames, name, "whole")


def _decoded(short: _Short) -> Samples | None:
    """float32 [frames, channels]; None: they are not those of the MD5."""
    info = short.info
    assert info.frames is not None
    # 24 bits lie in the upper ones of 32.
    kind, form, scale = ("<i2", "s16", 1 << 15) if info.bits == 16 else ("<i4", "s32", 1 << 31)
    width = info.channels * np.dtype(kind).itemsize
    decoder = AudioCodecContext.create("flac", "r")
    decoder.extradata, decoder.thread_count = short.data[8:INFO_BYTES], 1
    planes: list[memoryview] = []
    try:
        for frame in decoder.decode(av.Packet(short.data[short.first :])):
            if frame.format.name != form or frame.layout.nb_channels != info.channels:
                return None
            planes.append(memoryview(frame.planes[0])[: frame.samples * width])
    except av.FFmpegError:
        return None
    values = np.frombuffer(b"".join(planes), kind)
    raw = values.data if info.bits == 16 else _upper_bytes(values)
    if hashlib.md5(raw, usedforsecurity=False).digest() != info.md5:
        return None
    if len(values) != info.frames * info.channels:
        return None
    table = values.reshape(-1, info.channels)
    samples: Samples = np.multiply(table, np.float32(1 / scale), dtype=np.float32, casting="unsafe")
    return samples


def _upper_bytes(values: Int32s) -> bytes:
    """The upper three bytes of each value."""
    return values.view(np.uint8).reshape(-1, 4)[:, 1:].tobytes()


def _frames(data: bytes, first: int, info: StreamInfo) -> int | None:
    """How many frames there are, if they follow each other up to the last sample that the file's
    header counts, none is left over, and all are as that header says. Else None.

    Bytes within a frame that look like another frame's header may give None, too.
    """
    expected, count = 0, 0
    usual = int.from_bytes(data[10:12], "big")  # samples of each frame but the last one
    sync = data[first : first + 2]
    if sync not in (b"\xff\xf8", b"\xff\xf9"):
        return None
    rest = np.frombuffer(data, np.uint8)
    full = first + np.flatnonzero(rest[first:-1] == sync[0])
    form = info.channels, info.rate, info.bits
    for at in full[rest[full + 1] == sync[1]].tolist():
        found = _frame(data[at : at + _length(data, at)], form)
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


def _length(data: bytes, at: int) -> int:
    """Bytes of a frame's header that begins here (RFC 9639, 9.1); 0 if none can."""
    if at + 6 > len(data):
        return 0
    extra = 0  # bytes of its number beyond the first
    if data[at + 4] & 0x80:
        while data[at + 4] << extra & 0x80:
            extra += 1
        if extra == 1 or extra > 7:
            return 0
        extra -= 1
    length = 6 + extra + _WRITTEN_OUT[data[at + 2]]
    return length if at + length <= len(data) else 0


@lru_cache(maxsize=1 << 13)  # clips of one rate have the same ones, again and again
def _frame(head: bytes, form: tuple[int, int, int]) -> tuple[int, int] | None:
    """A frame's number and samples by its header (RFC 9639, 9.1), no samples where that contradicts
    the file's channels, rate and bits; None: these bytes are no header of a frame."""
    if not head or _crc8(head[:-1]) != head[-1]:
        return None
    size_code, rate_code, bits_code = head[2] >> 4, head[2] & 15, head[3] >> 1 & 7
    at = len(head) - 1 - _WRITTEN_OUT[head[2]]
    extra = at - 4
    number = head[4] & 0x7F >> (extra if extra > 1 else 0)
    for byte in head[5:at]:
        number = number << 6 | byte & 0x3F
    count = _SIZE_BYTES.get(size_code, 0)
    length = int.from_bytes(head[at : at + count], "big") + 1 if count else _SIZES[size_code]
    channels = head[3] >> 4
    coded = channels + 1 if channels < 8 else 2 if channels < 11 else 0
    rate = _RATES.get(rate_code) if rate_code else form[1]
    bits = _BITS.get(bits_code) if bits_code else form[2]
    return number, length if (coded, rate, bits) == form else 0


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
