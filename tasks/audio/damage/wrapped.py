"""A WAV of more than 4 GiB whose sizes, of 32 bits, began again at 0 while its writer went on."""

from __future__ import annotations

import struct
from typing import BinaryIO

from ...recording.container import Window, undisturbed
from .promise import promise

_TOP = 1 << 32
_AFTER = 1 << 20  # most bytes of chunks after the audio
_HEAD = 1 << 20  # most bytes before it

WRAPPED = "its size does not fit the 32 bits of its header: it was read to its end"


class Whole(Window):
    """The file with a header that counts all of its audio: as RF64, whose sizes have 64 bits."""

    def __init__(self, file: BinaryIO, head: bytes, start: int, length: int) -> None:
        super().__init__(file, start - len(head), len(head) + length)
        self._head, self._start = head, start

    def _read_whole(self, position: int, size: int) -> bytes:
        ahead = self._start - position  # bytes of the header from there on
        if ahead <= 0:
            return super()._read_whole(position, size)
        head = self._head[-ahead:][:size]
        return head + super()._read_whole(self._start, size - len(head))


@undisturbed
def whole(file: BinaryIO, size: int) -> Whole | None:
    """The file with its real size; None for any other file.

    EBU Tech 3306: RF64, a chunk `ds64` of 28 bytes with the sizes, and 0xFFFFFFFF in their places.
    """
    audio = promise(file) if size > _TOP else None
    if audio is None or not audio.start or audio.promised >= _TOP:
        return None
    file.seek(0)
    head = file.read(audio.start)
    if len(head) > _HEAD or head[:4] != b"RIFF" or head[8:12] != b"WAVE":
        return None
    wraps, after = divmod(audio.held - audio.promised, _TOP)
    if not wraps or after > _AFTER:
        return None
    length = audio.promised + wraps * _TOP
    chunks = head[12:-8]  # between the form's name and the chunk `data`
    before = 12 + 36 + len(chunks) + 8
    sizes = struct.pack("<4sIQQQI", b"ds64", 28, before - 8 + length, length, 0, 0)
    most = b"\xff" * 4
    return Whole(
        file, b"RF64" + most + b"WAVE" + sizes + chunks + b"data" + most, audio.start, length
    )
