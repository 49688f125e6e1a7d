"""What the header of an uncompressed file promises of its audio, against the bytes that are there.

libsndfile shortens a cut-off file silently. WAV (RIFF, RIFX, RF64), AIFF, W64, CAF and AU are read.
"""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

STREAMING_SLACK = 4096  # a streamed header holds the largest size there is, less its own length
_TAILS = (1 << 11, 1 << 13, 1 << 16)  # last bytes whose alignment is looked at
_STRETCH = 1 << 16  # bytes of which it is asked where their frames begin
_LOUDEST, _TINIEST = 1e6, 1e-20  # of full scale
_ROUGH = 0.6  # a right alignment is smoother than a wrong one by more than this


@dataclass(frozen=True, slots=True)
class Promise:
    """Bytes of audio promised, and bytes that are there, from `at` on, in frames of `frame` bytes
    (0: not known, or compressed)."""

    promised: int
    held: int
    unfinished: bool = False  # sizes still at nothing, as a writer leaves them that was killed
    at: int = 0
    frame: int = 0
    width: int = 0  # bytes of one channel's sample; 0: no plain integers
    order: str = "<"
    floats: bool = False

    @property
    def broken(self) -> bool:
        return self.held < self.promised

    @property
    def half_frame(self) -> int:
        """Bytes of a last frame that is not complete."""
        return min(self.held, self.promised) % self.frame if self.frame else 0


def promise(file: BinaryIO) -> Promise | None:
    """The promise of a file; None for other formats, or where the header makes none.

    Sizes that a streaming writer puts in because it cannot know better (0, or about 2^31 or 2^32)
    promise nothing, and neither does a data size that is off in a file whose outer size is
    fulfilled. The position is left at the start.
    """
    size = file.seek(0, os.SEEK_END)
    file.seek(0)
    try:
        head = file.read(12)
        reader = next((read for magic, read in _READERS.items() if head.startswith(magic)), None)
        return reader(file, size, head) if reader else None
    except (struct.error, OSError, OverflowError, ValueError):
        return None
    finally:
        file.seek(0)


def lost_since(file: BinaryIO, found: Promise) -> int | None:
    """The sample from which a file is doubtful that lacks a part of a frame; None: what it lacks is
    the end of its last frame.

    Where some bytes fell out, the samples after them are misread from half of one and half of the
    next, as noise: the end of the file is smoother when it is read from its last byte backwards.
    No length tells where that begins, so all is doubtful behind the last stretch that is clearly
    smoother when it is read from the start; without one, the whole recording.
    """
    if found.width < 2 or not found.half_frame:
        return None
    try:
        shifted = any(_shifted(file, found, length) for length in _TAILS)
        if found.floats:
            return 0 if shifted else None
        return _last_smooth(file, found, shifted)
    finally:
        file.seek(0)


def _last_smooth(file: BinaryIO, found: Promise, shifted: bool) -> int | None:
    """The first sample of the last stretch whose frames begin where those of the start do, if a
    stretch after it is `shifted`."""
    step = _STRETCH // found.frame
    for start in range((found.held - found.frame) // found.frame // step * step, -1, -step):
        at = found.at + start * found.frame
        length = min(step * found.frame, found.at + found.held - at - found.half_frame)
        right = _roughness(file, at, length, found)
        wrong = _roughness(file, at + found.half_frame, length, found)
        if right < _ROUGH * wrong:
            return start if shifted else None
        shifted = shifted or (wrong < _ROUGH * right and not _padded(file, at, length, found))
    return 0 if shifted else None


def _shifted(file: BinaryIO, found: Promise, length: int) -> bool:
    length = min(found.held, length) // found.frame * found.frame - found.frame
    end = found.at + found.held
    if found.floats:
        return _absurd(file, end - found.half_frame - length, length, found)
    if _padded(file, end - found.half_frame - length, length, found):
        return False
    wrong = _roughness(file, end - found.half_frame - length, length, found)
    return _roughness(file, end - length, length, found) < _ROUGH * wrong


def _padded(file: BinaryIO, at: int, length: int, found: Promise) -> bool:
    """Whether the lowest bits are all unused, as in 8 bits in 16: such samples look quiet when they
    are read a byte off."""
    file.seek(at)
    data = np.frombuffer(file.read(length), np.uint8)
    return not data[0 if found.order == "<" else found.width - 1 :: found.width].any()


def _absurd(file: BinaryIO, at: int, length: int, found: Promise) -> bool:
    """Whether what should be floating-point samples holds numbers that no recording has."""
    file.seek(at)
    kind = np.dtype(f"{found.order}f{found.width}")
    data = file.read(length)
    values = np.frombuffer(data[: len(data) // found.width * found.width], kind)
    with np.errstate(invalid="ignore"):
        tiny = (np.abs(values) < _TINIEST) & (values != 0)
        return bool((~(np.abs(values) < _LOUDEST)).any() or tiny.mean() > 0.5)


def _roughness(file: BinaryIO, at: int, length: int, found: Promise) -> float:
    """Mean step from one sample to the next in each channel. Samples that are read a byte off have
    their lowest bits on top, and large steps however quiet they are."""
    file.seek(at)
    data = np.frombuffer(file.read(length), np.uint8)
    data = data[: len(data) // found.frame * found.frame].reshape(-1, found.frame)
    upper = (found.width - 1, found.width - 2) if found.order == "<" else (0, 1)
    columns = range(0, found.frame, found.width)
    values = [
        data[:, c + upper[0]].astype(np.int8) * 256.0 + data[:, c + upper[1]] for c in columns
    ]
    return sum(float(np.abs(np.diff(v)).sum()) for v in values) / max(len(data), 1)


def _riff(file: BinaryIO, size: int, head: bytes) -> Promise | None:
    order = ">" if head[:4] in (b"RIFX", b"FORM") else "<"
    if head[8:12] not in (b"WAVE", b"AIFF", b"AIFC"):
        return None
    (outer,) = struct.unpack(order + "I", head[4:8])
    whole = not _streaming(outer) and outer + 8 <= size
    at, long_size, frame, width, floats = 12, None, 0, 0, False
    for _ in range(1000):  # a bound, whatever the file says
        file.seek(at)
        name, length = struct.unpack(order + "4sI", file.read(8))
        if name == b"ds64":
            long_size = struct.unpack("<QQ", file.read(16))[1]
        if name == b"fmt ":
            kind, channels, _, _, block, bits = struct.unpack(order + "HHIIHH", file.read(16))
            plain = kind in (1, 3, 6, 7, 0xFFFE)
            frame = block if plain and channels and block * 8 == channels * (bits + 7 & ~7) else 0
            width = block // channels if frame and kind in (1, 3, 0xFFFE) else 0
            floats = kind == 3 and width in (4, 8)
        if name == b"COMM" and head[8:12] == b"AIFF":
            channels, _, bits = struct.unpack(">hIh", file.read(8))
            width = bits + 7 >> 3
            frame = width * channels
        if name in (b"data", b"SSND"):
            start = at + (16 if name == b"SSND" else 8)
            skip = start - at - 8
            held, length = size - start, length - skip
            if length == 0xFFFFFFFF - skip and long_size:
                return Promise(long_size, held, False, start, frame, width, order)
            never = _streaming(outer) or outer == at or not _is_chunk(file, at + 8, size, order)
            if length == -skip and held and never:
                return Promise(0, held, unfinished=True)
            if whole or _streaming(length + skip):
                length = min(length, held)
            return Promise(length, held, False, start, frame, width, order, floats)
        at += 8 + length + length % 2
    return None


def _is_chunk(file: BinaryIO, at: int, size: int, order: str) -> bool:
    """Whether another chunk begins here: four printable characters and a length that is there."""
    file.seek(at)
    name, length = struct.unpack(order + "4sI", file.read(8))
    return bool(name.isascii() and name.decode("ascii").isprintable() and at + 8 + length <= size)


def _wave64(file: BinaryIO, size: int, head: bytes) -> Promise | None:
    at = 40
    for _ in range(1000):
        file.seek(at)
        name, length = struct.unpack("<16sQ", file.read(24))
        if name[:4] == b"data":
            return Promise(max(length - 24, 0), size - at - 24)
        at += max(length, 24) + 7 & ~7
    return None


def _core_audio(file: BinaryIO, size: int, head: bytes) -> Promise | None:
    at = 8
    for _ in range(1000):
        file.seek(at)
        name, length = struct.unpack(">4sq", file.read(12))
        if name == b"data":
            return None if length < 0 else Promise(length - 4, size - at - 16)
        at += 12 + max(length, 0)
    return None


def _sun(file: BinaryIO, size: int, head: bytes) -> Promise | None:
    offset, length = struct.unpack((">" if head[:4] == b".snd" else "<") + "II", head[4:12])
    return None if _streaming(length) else Promise(length, size - offset)


def _streaming(size: int) -> bool:
    return size == 0 or any(top - STREAMING_SLACK <= size < top for top in (1 << 31, 1 << 32))


_READERS = {
    b"RIFF": _riff, b"RF64": _riff, b"RIFX": _riff, b"FORM": _riff, b"riff": _wave64,
    b"caff": _core_audio, b".snd": _sun, b"dns.": _sun,
}  # fmt: skip
