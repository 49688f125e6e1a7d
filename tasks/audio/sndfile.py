"""Decoding with libsndfile (soundfile)."""

from collections.abc import Iterator
from contextlib import suppress
from typing import BinaryIO

import soundfile as sf

from ..recording.container import undisturbed
from ..recording.faults import Fault
from . import channels, ffmpeg
from .types import FRAMES_PER_BYTE, Header, Nameless, Samples, Weights

RETRY_FRAMES = 1024  # per block when the part before a break is read again: most samples lost

#: Formats in which libsndfile seeks to the exact sample.
_SEEKABLE = {"WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF"}
_HEAD = 512  # bytes within which an Ogg file names its codec and channels
_PLAIN = ("PCM_", "FLOAT", "DOUBLE", "ULAW", "ALAW")


class SoundFile:
    """Decoder of a file object of `size` bytes. sf.SoundFileError if libsndfile cannot open it."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._bytes = file
        self.faults: list[Fault] = []
        self._file = info = self._open()
        # soundfile seeks to the current position after every read; in OGG and MP3 that is slow and
        # inexact, and we do not need it.
        self._seek = info.seek
        info.seekable = lambda: False
        frames = info.frames if 0 <= info.frames <= size * FRAMES_PER_BYTE else None
        name = f"{info.format}/{info.subtype}".lower()
        weights = _weights(file, info.channels) if info.channels > 2 else None
        self.header = Header(info.samplerate, info.channels, frames, name, "soundfile", weights)
        self._exact_seek = info.format in _SEEKABLE and info.subtype.startswith(_PLAIN)

    def _open(self) -> sf.SoundFile:
        # Not by name: soundfile takes `.raw` for headerless PCM, and libsndfile guesses formats by
        # extension. Not by descriptor: libsndfile would hide the error of a failed read.
        return sf.SoundFile(Nameless(self._bytes))

    def read(self, frames: int) -> Iterator[Samples]:
        position = self._file.tell() if self._exact_seek else 0  # tell() seeks, see above
        while True:
            try:
                block: Samples = self._file.read(frames, dtype="float32", always_2d=True)
            except sf.SoundFileError:
                yield from self._until_it_breaks(position)
                raise
            if not len(block):
                return
            position += len(block)
            # A short block is a view of a full one's memory: thousands, of joined files, add up.
            yield block if 2 * len(block) > frames else block.copy()

    def skip_to(self, sample: int) -> bool:
        if not self._exact_seek:
            return False
        try:
            self._seek(sample)
        except sf.SoundFileError:
            return False
        return True

    def _until_it_breaks(self, position: int) -> Iterator[Samples]:
        """Samples from `position` up to the break: an error loses the whole block that it occurs
        in."""
        self._bytes.seek(0)
        with suppress(sf.SoundFileError), self._open() as again:
            done = 0
            while len(block := again.read(RETRY_FRAMES, dtype="float32", always_2d=True)):
                done += len(block)
                if done > position:
                    yield block[max(len(block) - (done - position), 0) :]

    def close(self) -> None:
        self._file.close()


@undisturbed
def _weights(file: BinaryIO, count: int) -> Weights | None:
    file.seek(0)
    head = file.read(_HEAD)
    if head.startswith(b"OggS"):  # libsndfile keeps the codec's order
        return channels.of_ogg(head, count)
    weights = ffmpeg.weights_in(file)
    return weights if weights is not None and len(weights) == count else None
