"""Audio in Kaldi archives, by the offset that `wav.scp` gives: `wav.ark:1234`."""

from __future__ import annotations

import os
import re
import struct
from dataclasses import dataclass, replace
from typing import BinaryIO

from tasks.base.errors import ItemError
from tasks.recording import Locator, Recording, patient
from tasks.recording.whole_file import display_path, of_file

_PLACE = re.compile(r"(?P<file>.+):(?P<offset>\d{1,18})(?P<range>\[.*\])?", re.DOTALL)
_STREAMED = (0, 0x7FFFF000 + 36, 0xFFFFFFFF)  # sizes that a WAV has which was piped
_HEAD = 16  # bytes
PIPE = (
    "a pipe in wav.scp is never run; where you trust its commands, run them once: "
    "`wav-copy scp:wav.scp ark,scp:$PWD/wav.ark,new.scp`, and take new.scp for wav.scp"
)


@dataclass(frozen=True, slots=True)
class ArkPlace:
    """An offset in an archive."""

    file: str
    offset: int
    cut: bool


def ark_place(path: str) -> ArkPlace | None:
    """What a path that is no file may mean."""
    match = _PLACE.fullmatch(path)
    return match and ArkPlace(match["file"], int(match["offset"]), bool(match["range"]))


def ark_recording(name: str, place: ArkPlace) -> Recording:
    """The recording at an offset, failed where no audio is there."""
    whole = of_file(name, place.file)
    if whole.error:
        return whole
    named = replace(whole, source_path=f"{display_path(place.file)}:{place.offset}", size=0)
    try:
        if place.cut:
            raise ItemError("unsupported", "a range of an archive's entry; put it into `segments`")
        with patient.opened(place.file) as file:
            start, length = _audio(file, place.offset)
            if start + length > file.seek(0, os.SEEK_END):
                raise ItemError("truncated", "the archive ends within it")
    except ItemError as error:
        return replace(named, error=(error.code, error.detail))
    return replace(named, size=length, locator=Locator(place.file, offset=start, length=length))


def _audio(file: BinaryIO, offset: int) -> tuple[int, int]:
    """Where the audio begins, and its bytes: a WAV as `wav-copy` writes it, or any file with its
    length, as kaldiio does. ItemError."""
    file.seek(offset)
    head = file.read(_HEAD)
    if head[:4] == b"RIFF" and head[8:12] == b"WAVE":
        [size] = struct.unpack_from("<L", head, 4)
        if size in _STREAMED:
            raise ItemError(
                "unsupported",
                "a WAV without its length in the header; copy the archive with wav-copy",
            )
        return offset, size + 8
    if head[:5] == b"AUDIO" and len(head) == _HEAD and 0 < head[5] <= 8:
        return offset + 6 + head[5], int.from_bytes(head[6 : 6 + head[5]], "little")
    what = "matrices" if head[:2] == b"\0B" else "no WAV"
    raise ItemError("unsupported", f"{what} at this offset of the archive; audio is expected")
