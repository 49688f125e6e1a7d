"""FLAC files (RFC 9639): their header, the MD5 of their samples, and short ones decoded at once."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import BinaryIO

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext

from ..base.arrays import Float32s
from ..recording.container import undisturbed
from ..recording.faults import Fault
from .damage.mp3 import id3_length
from .types import FRAMES_PER_BYTE, Decoder, Header, Samples

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


# Short files whose MD5 proves every sample: read once, and decoded in one call.
#
# FFmpeg's FLAC decoder gets the frames without a demuxer, which takes half as long again for a clip
# of some seconds. The usual way through FFmpeg would deliver the same samples and find no fault, so
# readers cannot tell the two apart. Files with any oddity (no MD5, a wrong one, more frames than
# the header counts, frames that contradict the header) go the usual way.


MOST_VALUES = 1 << 21  # samples x channels: 8 MB of float32
MOST_BYTES = 1 << 23  # pictures and tags included
MOST_PROBED = 1 << 15  # bytes within which the first frame must end, after the tags


class Whole(Decoder):
    """Decoder of a file that is already decoded."""

    def __init__(self, samples: Samples, info: StreamInfo) -> None:
        self._samples = samples
        name = f"flac/{info.kind}"
        self.header = Header(info.rate, info.channels, info.frames, name, "whole")
        self.faults: list[Fault] = []

    def read(self, frames: int) -> Iterator[Samples]:
        for start in range(0, len(self._samples), frames):
            yield self._samples[start : start + frames]

    def close(self) -> None:
        pass


def proved(file: BinaryIO, size: int) -> Whole | None:
    """Decoder of a short native FLAC file of 16 or 24 bits with a matching MD5; None leaves the
    file, at its start, to another decoder."""
    data, info = _begun(file, size, MOST_BYTES)
    if size > MOST_BYTES or info is None or info.md5 is None:
        return None
    samples = _samples(_frames(data, info), info)
    return None if samples is None else Whole(samples, info)


def promised(file: BinaryIO, size: int) -> Whole | None:
    """Decoder with only the header, and no samples, if the first frame decodes and matches the
    header; None leaves the file, at its start, to another decoder."""
    data, info = _begun(file, size, MOST_PROBED)
    if info is None or not _frames(data, info, first_alone=True):
        return None
    return Whole(np.zeros((0, info.channels), np.float32), info)


@undisturbed
def _begun(file: BinaryIO, size: int, most: int) -> tuple[bytes, StreamInfo | None]:
    """The first `most` bytes of a file, and its header, or None if it is unusual."""
    data = file.read(INFO_BYTES)
    info = info_in(data)
    # From three channels on, tags may give their positions.
    plain = info is not None and info.bits in (16, 24) and info.channels < 3
    if info is None or info.frames is None or not plain:
        return data, None
    if info.frames * info.channels > MOST_VALUES or info.frames > size * FRAMES_PER_BYTE:
        return data, None
    return data + file.read(min(size, most) - len(data)), info


def _frames(data: bytes, info: StreamInfo, first_alone: bool = False) -> list[av.AudioFrame]:
    """All decoded frames, or only those within as many bytes as the largest one has; empty if
    anything is unusual."""
    first = _first_frame(data)
    decoder = AudioCodecContext.create("flac", "r")
    decoder.extradata, decoder.thread_count = data[8:INFO_BYTES], 1
    decoder.options = {"err_detect": DROP_WRONG}
    if first_alone:
        largest = int.from_bytes(data[15:18], "big") or len(data)  # 0: the encoder left it out
        packets = [av.Packet(data[first : first + largest])]
    else:
        # One packet per frame: from a packet with all frames, FFmpeg silently drops those behind a
        # damaged one, and that may lie behind the last one that the header counts.
        packets = decoder.parse(data[first:])
        while rest := decoder.parse(None):
            packets += rest
    try:
        frames = [frame for packet in packets for frame in decoder.decode(packet)]
    except av.FFmpegError:
        return []
    form = info.channels, info.rate
    same = all((frame.layout.nb_channels, frame.sample_rate) == form for frame in frames)
    return frames if same and (first_alone or len(frames) == len(packets)) else []


def _first_frame(data: bytes) -> int:
    """The end of the metadata (RFC 9639, 8.1); the end of the data if there are blocks other than
    padding, application data, seek points and tags: FFmpeg refuses some that libsndfile skips."""
    if data[5:8] != b"\0\0\x22":
        return len(data)
    offset, last = INFO_BYTES, bool(data[4] & 0x80)
    while not last and offset + 4 <= len(data):
        last = bool(data[offset] & 0x80)
        if data[offset] & 0x7F not in (1, 2, 3, 4):
            return len(data)
        offset += 4 + int.from_bytes(data[offset + 1 : offset + 4], "big")
    return offset


def _samples(frames: Sequence[av.AudioFrame], info: StreamInfo) -> Samples | None:
    """float32 [frames, channels]; None if they do not match the MD5."""
    # 24-bit samples are in the upper bits of 32.
    kind, form, scale = ("<i2", "s16", 1 << 15) if info.bits == 16 else ("<i4", "s32", 1 << 31)
    width = info.channels * np.dtype(kind).itemsize
    if any(frame.format.name != form for frame in frames):
        return None
    values = np.frombuffer(
        b"".join(memoryview(frame.planes[0])[: frame.samples * width] for frame in frames), kind
    )
    # The MD5 of 24 bits is that of the upper three bytes.
    raw = values if info.bits == 16 else values.view(np.uint8).reshape(-1, 4)[:, 1:]
    if hashlib.md5(raw.tobytes(), usedforsecurity=False).digest() != info.md5:
        return None
    table = values.reshape(-1, info.channels)
    if len(table) != info.frames:
        return None
    samples: Samples = np.multiply(table, np.float32(1 / scale), dtype=np.float32, casting="unsafe")
    return samples
