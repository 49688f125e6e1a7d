"""WAV files whose header counts only a part of their audio: more than 4 GiB, where the sizes of 32
bits began again at 0, and several chunks of audio. Decoders read the first part only."""

import struct
from collections.abc import Iterator
from itertools import accumulate
from typing import BinaryIO

from ...recording.container import Window, undisturbed
from .promise import Promise

_TOP = 1 << 32
_AFTER = 1 << 20  # most bytes of chunks after the audio of a file whose sizes wrapped
_HEAD = 1 << 20  # most bytes before it
_MOST_CHUNKS = 10_000

WRAPPED = "its size does not fit the 32 bits of its header: it was read to its end"

Span = tuple[int, int]  # offset, length


class Whole(Window):
    """A header, and the audio of some spans of a file, one after the other. `note`: why."""

    def __init__(self, file: BinaryIO, head: bytes, spans: list[Span], note: str) -> None:
        lengths = [len(head), *(length for _, length in spans)]
        super().__init__(file, 0, sum(lengths))
        self._head, self._spans, self.note = head, spans, note
        self._starts = [*accumulate(lengths)][:-1]  # of each span, in this file

    def _read_whole(self, position: int, size: int) -> bytes:
        data = self._head[position : position + size]
        for start, (offset, length) in zip(self._starts, self._spans, strict=True):
            inner = position + len(data) - start
            if 0 <= inner < length and len(data) < size:
                most = min(size - len(data), length - inner)
                data += super()._read_whole(offset + inner, most)
        return data


@undisturbed
def whole(file: BinaryIO, size: int, audio: Promise) -> Whole | None:
    """A WAV with a header that counts all of its audio; None if its own, which promises `audio`,
    does.

    EBU Tech 3306: RF64, a chunk `ds64` of 28 bytes with the sizes, and 0xFFFFFFFF in their places.
    """
    if not audio.start or not 0 < audio.promised <= audio.held:
        return None
    wraps, after = divmod(audio.held - audio.promised, _TOP)
    if audio.promised < _TOP and wraps and after <= _AFTER:  # its size began again at 0
        spans, note = [(audio.start, audio.promised + wraps * _TOP)], WRAPPED
    else:
        spans = [(audio.start, audio.promised), *_further(file, audio, size)]
        note = f"its audio lies in {len(spans)} chunks: they were read one after the other"
        if len(spans) == 1:
            return None
    file.seek(0)
    head = file.read(audio.start)
    if len(head) > _HEAD or head[:4] != b"RIFF":
        return None
    length = sum(span[1] for span in spans)
    chunks = head[12:-8]  # between the form's name and the chunk `data`
    before = 12 + 36 + len(chunks) + 8
    sizes = struct.pack("<4sIQQQI", b"ds64", 28, before - 8 + length, length, 0, 0)
    most = b"\xff" * 4
    return Whole(file, b"RF64" + most + b"WAVE" + sizes + chunks + b"data" + most, spans, note)


def _further(file: BinaryIO, audio: Promise, size: int) -> Iterator[Span]:
    """Whole chunks of audio behind the first, in whole frames."""
    offset = audio.start + audio.promised
    for _ in range(_MOST_CHUNKS):
        offset += offset % 2
        file.seek(offset)
        head = file.read(8)
        if len(head) < 8:
            return
        name, length = struct.unpack("<4sI", head)
        offset += 8
        if offset + length > size:
            return
        if name == b"data" and audio.frame and length >= audio.frame:
            yield offset, length - length % audio.frame
        offset += length
