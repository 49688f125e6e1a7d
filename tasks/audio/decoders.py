"""libsndfile and FFmpeg behind one door: `opened` gives a decoder for the bytes of a file.

libsndfile first, but for FLAC and MPEG, which FFmpeg reads to their end whatever the header says;
what libsndfile cannot open goes to FFmpeg (PyAV) as well, and so does an Ogg file with damaged or
missing pages, because FFmpeg knows the time of what is left. A file that libsndfile opens and then
breaks on is failed, not tried again: two decoders that disagree on a broken file would make the
result depend on which of them is installed. Formats are told by content, never by extension.

FFmpeg gets a file object and a list of formats. It never sees a path, so that a playlist or a
concat script named `.m4a` cannot make it open other files or addresses.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, BinaryIO

import av
import soundfile as sf

from tasks.audio import checksums, ogg_pages
from tasks.audio.chained import Chained
from tasks.audio.ffmpeg import EXTRA_BITS, FRAMES_PER_BYTE, FFmpeg
from tasks.audio.kinds import Decoder, Header, Samples
from tasks.audio.promise import promise
from tasks.errors import ItemError
from tasks.recording.faults import Fault

RETRY_FRAMES = 1024  # read again at once before a break: at most so many samples are lost

#: Formats whose seek is exact to the sample in libsndfile.
_SEEKABLE = {"WAV", "WAVEX", "RF64", "W64", "AIFF", "AU", "CAF"}
_PLAIN = ("PCM_", "FLOAT", "DOUBLE", "ULAW", "ALAW")

#: libsndfile reads an MPEG stream only up to the length that it estimates from the first frames or
#: from the Xing header: half of a file of varying bit rate without that header, and the first part
#: of joined files, with no error; and its floats differ by a bit from one decode to the next.
#: FFmpeg reads to the end and trims the encoder's padding alike. libsndfile also stops a FLAC at
#: the length in its header, and passes over frames whose checksum is wrong.
#: Its ALAC goes on after packets that cannot be, and its VOC takes headers of blocks for audio.
_FFMPEGS_OWN = ("mp3/", "flac/", "caf/alac", "voc/")
#: MIDI sample dumps. libsndfile reads them, but goes on over blocks whose checksum is wrong, writes
#: each byte that it does not like to stdout, and loses the last block of those that it wrote itself
#: in 8 or 24 bits; FFmpeg does not know them.
_SDS = b"\xf0\x7e"


class SoundFile:
    """libsndfile on a file object."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._bytes = file
        self.faults: list[Fault] = []
        self._file = info = self._open()
        # soundfile seeks after every read to where it is already; in OGG and MP3 that is slow and
        # not exact. Nothing here needs that seek.
        self._seek = info.seek
        info.seekable = lambda: False
        frames: int | None = info.frames
        if info.frames < 0 or info.frames > size * FRAMES_PER_BYTE:
            frames = None
        name = f"{info.format}/{info.subtype}".lower()
        self.header = Header(info.samplerate, info.channels, frames, name, "soundfile")
        self._exact_seek = info.format in _SEEKABLE and info.subtype.startswith(_PLAIN)

    def _open(self) -> Any:
        # By descriptor where there is one: a name would make soundfile take `.raw` for headerless
        # PCM, and libsndfile guess formats by extension.
        named = isinstance(self._bytes, io.FileIO)
        return sf.SoundFile(self._bytes.fileno() if named else self._bytes, closefd=False)

    def read(self, frames: int) -> Iterator[Samples]:
        at = self._file.tell() if self._exact_seek else 0  # it seeks, see above
        while True:
            try:
                block: Samples = self._file.read(frames, dtype="float32", always_2d=True)
            except sf.SoundFileError:
                yield from self._until_it_breaks(at)
                raise
            if not len(block):
                return
            at += len(block)
            yield block

    def skip_to(self, sample: int) -> bool:
        if not self._exact_seek:
            return False
        try:
            self._seek(sample)
        except sf.SoundFileError:
            return False
        return True

    def _until_it_breaks(self, at: int) -> Iterator[Samples]:
        """What lies from `at` to the break, which an error takes with the block it stands in."""
        self._bytes.seek(0)
        with suppress(sf.SoundFileError), self._open() as again:
            done = 0
            while len(block := again.read(RETRY_FRAMES, dtype="float32", always_2d=True)):
                done += len(block)
                if done > at:
                    yield block[max(len(block) - (done - at), 0) :]

    def close(self) -> None:
        self._file.close()


BROKEN = (sf.SoundFileError, av.FFmpegError, OSError, ValueError, EOFError)


def _unfinished(decoder: Decoder, file: BinaryIO) -> bool:
    """Whether libsndfile finds no audio only because its size was never written."""
    if decoder.header.frames:
        return False
    found = promise(file)
    return found is not None and found.unfinished


class Suspect:
    """A decoder of a file whose container may know of damage, wherever it is; `what` is asked when
    all is decoded and what the decoder found does not explain it."""

    def __init__(
        self, decoder: Decoder, what: Callable[[], str | None], explained: Callable[[], bool],
        at_end: bool = False,
    ) -> None:  # fmt: skip
        self._decoder, self._what, self._at_end = decoder, what, at_end
        self._explained = explained
        self.header, self.faults = decoder.header, decoder.faults

    def read(self, frames: int) -> Iterator[Samples]:
        """The same blocks; damage that the decoder did not find is somewhere in all of them."""
        at = 0
        for block in self._decoder.read(frames):
            at += len(block)
            yield block
        if not self._explained() and (what := self._what()):
            self.faults.append(Fault(at if self._at_end else 0, at, what, not self._at_end))

    def skip_to(self, sample: int) -> bool:
        return False

    def close(self) -> None:
        self._decoder.close()


def opened(file: BinaryIO, size: int) -> Decoder:
    """A decoder for a file of `size` bytes. ItemError `unreadable` where neither knows it."""
    pages = ogg_pages.scan(file, size)
    if pages is None:
        return _opened(file, size, None)
    if len(pages.links) == 1:
        return _opened(file, size, pages)
    links = [link for link in pages.links if link[1]]

    def opened_link(part: BinaryIO, length: int) -> Decoder:
        return _opened(part, length, ogg_pages.scan(part, length))

    return Chained(file, links, opened_link)


def _opened(file: BinaryIO, size: int, pages: ogg_pages.Pages | None) -> Decoder:
    first = "left to FFmpeg"
    _refuse_sample_dump(file)
    if not (pages and pages.faults) and not _is_ffmpegs_own(file):
        try:
            decoder = SoundFile(file, size)
            own = decoder.header.format.startswith(_FFMPEGS_OWN)
            if not own and not _unfinished(decoder, file):
                return decoder
            decoder.close()
        except sf.SoundFileError as error:
            first = str(error).rpartition(": ")[2]
    file.seek(0)
    try:
        found = _ffmpeg(file, size)
    except (av.FFmpegError, OSError, ValueError, EOFError) as error:
        raise ItemError("unreadable", f"libsndfile: {first}; FFmpeg: {error}") from error
    if pages and pages.faults:
        what = f"{len(pages.faults)} damaged or missing pages"
        return Suspect(found, lambda: what, lambda: bool(found.faults), pages.tail_only)
    if found.header.format.startswith("mp3/"):
        # Frames that the decoder rejects in one place are what is wrong. Where it only finds some
        # of them odd, others that are as wrong may sound right.
        return Suspect(found, partial(checksums.lame_fault, file, size), lambda: found.one_place)
    return found


def _ffmpeg(file: BinaryIO, size: int) -> FFmpeg:
    try:
        return FFmpeg(file, size)
    except av.InvalidDataError as error:
        if EXTRA_BITS not in str(error):
            raise
        file.seek(0)
        return FFmpeg(file, size, check=False)


def _refuse_sample_dump(file: BinaryIO) -> None:
    head = file.read(len(_SDS))
    file.seek(0)
    if head == _SDS:
        what = "a MIDI sample dump (SDS), whose checksums no decoder here looks at"
        raise ItemError("unreadable", f"{what}; convert it to WAV")


def _is_ffmpegs_own(file: BinaryIO) -> bool:
    """Whether a file begins as a FLAC or an MPEG stream. libsndfile's reader of MPEG writes to the
    terminal of what it does not like."""
    file.seek(checksums.id3_length(file))
    head = file.read(4)
    file.seek(0)
    return head == b"fLaC" or (head[:1] == b"\xff" and len(head) > 1 and head[1] & 0xE0 == 0xE0)
