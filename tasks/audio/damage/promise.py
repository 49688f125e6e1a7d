"""The bytes of audio that an uncompressed file's header promises, and those it has.

libsndfile shortens a truncated file silently. Covers WAV (RIFF, RIFX, RF64), AIFF, W64, CAF, AU and
NIST's SPHERE.
"""

import re
import struct
from dataclasses import dataclass
from typing import BinaryIO

import numpy as np

from ...recording.container import size_of, undisturbed

UNCOUNTED = 1 << 16  # bytes after the audio that cannot be just padding and tags
PADDING = 1 << 30  # bytes that no writer pads with: a size that wrapped at 2^32 counts less
#: First bytes of files (W64, SPHERE) of which libsndfile decodes what follows their audio, too.
UNCOUNTING = (b"riff", b"NIST_1A\n")
STREAMING_SLACK = 4096  # bytes by which a streaming header may differ from the largest size


@dataclass(frozen=True, slots=True)
class Promise:
    """Bytes of audio that the header promises, and those in the file from offset `start` on, in
    frames of `frame` bytes (0: unknown, or compressed)."""

    promised: int
    held: int
    unfinished: bool = False  # sizes are still 0, as a killed writer leaves them
    start: int = 0
    frame: int = 0
    width: int = 0  # bytes of one channel's sample; 0: unknown, or compressed
    order: str = "<"
    floats: bool = False
    after: str | None = None  # unread bytes that follow, with a remedy

    @property
    def half_frame(self) -> int:
        """Bytes of an incomplete last frame."""
        return min(self.held, self.promised) % self.frame if self.frame else 0


@undisturbed
def promise(file: BinaryIO) -> Promise | None:
    """The promise of a file; None for other formats, or if the header makes none.

    Placeholder sizes of streaming writers (0, or about 2^31 or 2^32) promise nothing, and neither
    does a wrong data size in a file whose outer size is right.
    """
    size = size_of(file)
    try:
        head = file.read(12)
        for magic, read in _READERS.items():
            if head.startswith(magic):
                return read(file, size, head)
    except (struct.error, OSError, OverflowError, ValueError):
        pass
    return None


@undisturbed
def uncounted(file: BinaryIO) -> int:
    """Bytes after the audio of a file of UNCOUNTING that libsndfile would decode as audio."""
    audio = promise(file)
    return max(audio.held - audio.promised, 0) if audio and audio.promised else 0


def _riff(file: BinaryIO, size: int, head: bytes) -> Promise | None:
    order = ">" if head[:4] in (b"RIFX", b"FORM") else "<"
    if head[8:12] not in (b"WAVE", b"AIFF", b"AIFC"):
        return None
    (outer,) = struct.unpack(order + "I", head[4:8])
    whole = not _streaming(outer) and outer + 8 <= size
    offset, long_size, frame, width, floats = 12, None, 0, 0, False
    for _ in range(1000):  # a damaged file must not loop for ever
        file.seek(offset)
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
            start = offset + (16 if name == b"SSND" else 8)
            skip = start - offset - 8
            available, length = size - start, length - skip
            if length == 0xFFFFFFFF - skip and long_size:
                return Promise(long_size, available, False, start, frame, width, order)
            chunk = _is_chunk(file, offset + 8, size, order)
            never = _streaming(outer) or outer == offset or not chunk
            if length == -skip and available and never:
                return Promise(0, available, unfinished=True)
            if whole or _streaming(length + skip):
                length = min(length, available)
            after = _after(file, start + length, size, order)
            return Promise(length, available, False, start, frame, width, order, floats, after)
        offset += 8 + length + length % 2
    return None


def _is_chunk(file: BinaryIO, offset: int, size: int, order: str) -> bool:
    """Whether another chunk begins here: four printable characters, and a length that fits."""
    file.seek(offset)
    name, length = struct.unpack(order + "4sI", file.read(8))
    printable = name.isascii() and name.decode("ascii").isprintable()
    return bool(printable and offset + 8 + length <= size)


def _after(file: BinaryIO, offset: int, size: int, order: str) -> str | None:
    """What follows the audio and its chunks: another file joined by `cat`, or audio that the header
    does not count, because the recorder was killed or the size needs more than 32 bits."""
    offset += offset % 2
    while offset + 8 <= size and _is_chunk(file, offset, size, order):
        file.seek(offset)
        name, length = struct.unpack(order + "4sI", file.read(8))
        if name == b"RIFF" and file.read(4) == b"WAVE":
            return "another WAV file follows in it, which is not read; split the file"
        offset += 8 + length + length % 2
    rest = size - offset
    if rest < UNCOUNTED:
        return None
    sounds = rest >= PADDING
    for place in (offset, max(size - UNCOUNTED, offset)):  # zeros are padding
        file.seek(place)
        sounds = sounds or any(file.read(UNCOUNTED))
    if not sounds:
        return None
    return f"its header does not count its last {rest} bytes; correct its header"


def _wave64(file: BinaryIO, size: int, head: bytes) -> Promise | None:
    offset = 40
    for _ in range(1000):
        file.seek(offset)
        name, length = struct.unpack("<16sQ", file.read(24))
        if name[:4] == b"data":
            return Promise(max(length - 24, 0), size - offset - 24)
        offset += max(length, 24) + 7 & ~7
    return None


def _core_audio(file: BinaryIO, size: int, head: bytes) -> Promise | None:
    offset = 8
    for _ in range(1000):
        file.seek(offset)
        name, length = struct.unpack(">4sq", file.read(12))
        if name == b"data":
            return None if length < 0 else Promise(length - 4, size - offset - 16)
        offset += 12 + max(length, 0)
    return None


def _sun(file: BinaryIO, size: int, head: bytes) -> Promise | None:
    offset, length = struct.unpack((">" if head[:4] == b".snd" else "<") + "II", head[4:12])
    return None if _streaming(length) else Promise(length, size - offset)


def _sphere(file: BinaryIO, size: int, head: bytes) -> Promise | None:
    """For samples that are not compressed (shorten); a line of the header is `name -type value`."""
    file.seek(len("NIST_1A\n"))
    start = int(file.read(8))  # "   1024\n"
    file.seek(0)
    fields = dict(re.findall(rb"^(\w+) -\w+ (\S+)$", file.read(min(start, 1 << 16)), re.MULTILINE))
    if fields.get(b"sample_coding", b"pcm") not in (b"pcm", b"ulaw", b"mu-law", b"alaw"):
        return None
    names = (b"sample_count", b"sample_n_bytes", b"channel_count")
    count, width, channels = (int(fields.get(name, 0)) for name in names)
    if not count * width * channels:
        return None
    order = ">" if fields.get(b"sample_byte_format") == b"10" else "<"
    frame = width * channels
    return Promise(count * frame, size - start, False, start, frame, width, order)


def _streaming(size: int) -> bool:
    least = min(abs(size - (1 << 31)), abs(size - (1 << 32)))
    return size == 0 or least <= STREAMING_SLACK


_READERS = {
    b"RIFF": _riff,
    b"RF64": _riff,
    b"RIFX": _riff,
    b"FORM": _riff,
    b"riff": _wave64,
    b"caff": _core_audio,
    b".snd": _sun,
    b"dns.": _sun,
    b"NIST_1A\n": _sphere,
}


# Finds where samples of an uncompressed file are misread because bytes before them are missing.

_TAILS = (1 << 11, 1 << 13, 1 << 16)  # lengths of the file's end whose alignment is checked
_STRETCH = 1 << 16  # bytes per alignment check
_LOUDEST, _TINIEST = 1e6, 1e-20  # of full scale
_ROUGH = 0.6  # the right alignment is smoother than a wrong one by more than this factor


@undisturbed
def lost_since(file: BinaryIO, audio: Promise) -> int | None:
    """First doubtful sample of a file that lacks a part of a frame; None if it lacks only the end
    of its last frame.

    After missing bytes each sample is read from half of one and half of the next, which sounds like
    noise: the end of the file is smoother when frames are counted back from its last byte. Where
    that begins is unknown, so everything is doubtful after the last stretch that is clearly
    smoother when frames are counted from the start; without such a stretch, the whole recording.
    """
    if audio.width < 2 or not audio.half_frame:
        return None
    shifted = any(_shifted(file, audio, length) for length in _TAILS)
    if audio.floats:
        return 0 if shifted else None
    return _last_smooth(file, audio, shifted)


def _last_smooth(file: BinaryIO, audio: Promise, shifted: bool) -> int | None:
    """First sample of the last stretch that is aligned with the start of the file, if a later
    stretch is `shifted`; 0 if there are only shifted ones."""
    step = _STRETCH // audio.frame
    for start in range((audio.held - audio.frame) // audio.frame // step * step, -1, -step):
        offset = audio.start + start * audio.frame
        length = min(step * audio.frame, audio.start + audio.held - offset - audio.half_frame)
        right = _roughness(file, offset, length, audio)
        wrong = _roughness(file, offset + audio.half_frame, length, audio)
        if right < _ROUGH * wrong:
            return start if shifted else None
        shifted = shifted or (wrong < _ROUGH * right and not _padded(file, offset, length, audio))
    return 0 if shifted else None


def _shifted(file: BinaryIO, audio: Promise, length: int) -> bool:
    """Whether the last `length` bytes are aligned with the end of the file, not with its start."""
    length = min(audio.held, length) // audio.frame * audio.frame - audio.frame
    end = audio.start + audio.held
    if audio.floats:
        return _absurd(file, end - audio.half_frame - length, length, audio)
    if _padded(file, end - audio.half_frame - length, length, audio):
        return False
    wrong = _roughness(file, end - audio.half_frame - length, length, audio)
    return _roughness(file, end - length, length, audio) < _ROUGH * wrong


def _padded(file: BinaryIO, offset: int, length: int, audio: Promise) -> bool:
    """Whether the lowest byte is always 0, as with 8 bits in 16: such samples look quiet when read
    one byte off."""
    file.seek(offset)
    data = np.frombuffer(file.read(length), np.uint8)
    return not data[0 if audio.order == "<" else audio.width - 1 :: audio.width].any()


def _absurd(file: BinaryIO, offset: int, length: int, audio: Promise) -> bool:
    """Whether floating-point samples have impossible values."""
    file.seek(offset)
    kind = np.dtype(f"{audio.order}f{audio.width}")
    data = file.read(length)
    values = np.frombuffer(data[: len(data) // audio.width * audio.width], kind)
    with np.errstate(invalid="ignore"):
        tiny = (np.abs(values) < _TINIEST) & (values != 0)
        return bool((~(np.abs(values) < _LOUDEST)).any() or tiny.mean() > 0.5)


def _roughness(file: BinaryIO, offset: int, length: int, audio: Promise) -> float:
    """Mean step from one sample to the next, summed over channels. Samples read one byte off have
    their lowest bits on top, and so large steps, however quiet they are."""
    file.seek(offset)
    data = np.frombuffer(file.read(length), np.uint8)
    data = data[: len(data) // audio.frame * audio.frame].reshape(-1, audio.frame)
    upper = (audio.width - 1, audio.width - 2) if audio.order == "<" else (0, 1)
    columns = range(0, audio.frame, audio.width)
    values = [
        data[:, c + upper[0]].astype(np.int8) * 256.0 + data[:, c + upper[1]] for c in columns
    ]
    return sum(float(np.abs(np.diff(v)).sum()) for v in values) / max(len(data), 1)


# The end of a container that states it: ASF (WMA) by the sizes of its objects, NUT by the index
# that its writer puts last. Later bytes do not belong to it.


MOST = 1 << 20  # bytes searched at the end
_ASF = bytes.fromhex("3026b2758e66cf11a6d900aa0062ce6c")
_ASF_OBJECT = 24  # bytes of an object's name and size
_MOST_OBJECTS = 100
_NUT_INDEX = b"NX\xddg/#\xe6N"
_LONG_PACKET = 4096  # bytes above which a header has its own checksum
_LONGEST_NUMBER = 10  # bytes


@undisturbed
def told_end(file: BinaryIO, size: int, kind: str) -> int | None:
    """The offset after the last byte of a container `kind`; None if it does not state its end,
    promises more bytes than there are, or another one follows."""
    readers = {"asf": _asf, "nut": _nut}
    return readers[kind](file, size) if kind in readers else None


def _asf(file: BinaryIO, size: int) -> int | None:
    offset = 0
    for _ in range(_MOST_OBJECTS):
        file.seek(offset)
        head = file.read(_ASF_OBJECT)
        if offset and head.startswith(_ASF):
            return None
        length = int.from_bytes(head[16:], "little")
        if len(head) < _ASF_OBJECT or length < _ASF_OBJECT or offset + length > size:
            break
        offset += length
    return offset or None


def _nut(file: BinaryIO, size: int) -> int | None:
    start = max(size - MOST, 0)
    file.seek(start)
    data = file.read(MOST)
    place = data.rfind(_NUT_INDEX)
    if place < 0:
        return None
    place += len(_NUT_INDEX)
    length, width = 0, 0
    for byte in data[place : place + _LONGEST_NUMBER]:
        length, width = length << 7 | byte & 0x7F, width + 1
        if byte < 0x80:
            break
    end = start + place + width + (4 if length > _LONG_PACKET else 0) + length
    return end if end <= size else None
