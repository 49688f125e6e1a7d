"""Chooses between libsndfile and FFmpeg: `opened` gives the decoder for a file.

libsndfile comes first. FFmpeg (PyAV) decodes what libsndfile cannot open; FLAC (except short files
with the right MD5) and MPEG, which it reads to the end whatever the header says; and Ogg files with
damaged or missing pages, because it knows the time of the rest. If libsndfile opens a file and then
breaks on it, the file has failed: a second decoder that disagrees would make the result depend on
what is installed. Formats are recognised by content; the extension counts only for files without a
header (`file_kinds.headerless`).

FFmpeg gets a file object and a list of formats, never a path, so that a playlist or a concat script
named `.m4a` cannot make it open other files or addresses.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial
from typing import BinaryIO, cast

import av
import soundfile as sf

from ..base.errors import ItemError
from ..recording import file_kinds
from ..recording.container import Window, size_of, undisturbed
from ..recording.faults import Fault
from . import flac
from .damage import mp3, ogg_pages, wav_sizes
from .damage.edges import Edges, around, beginnings, tags_before
from .damage.ogg_pages import MOST_LINKS
from .damage.promise import UNCOUNTING, promise, uncounted
from .ffmpeg import FFmpeg
from .frames import PartConverter
from .packets import EXTRA_BITS, in_words
from .sndfile import SoundFile
from .types import AGAIN, Decoder, Samples

#: Formats left to FFmpeg. libsndfile reads an MPEG stream only up to a length that it estimates
#: from the first frames or takes from the Xing header: without an error, it decodes half of a file
#: of varying bit rate without that header, and only the first of joined files; and its floats
#: differ by a bit between decodes. FFmpeg reads to the end, and also trims the encoder's padding.
#: libsndfile also stops a FLAC at the length in its header and ignores wrong checksums of frames;
#: its ALAC continues after invalid packets; its VOC reads block headers as audio.
_FFMPEGS_OWN = ("mp3/", "flac/", "caf/alac", "voc/")
#: First bytes of a MIDI sample dump. libsndfile reads these, but ignores wrong checksums, writes
#: each unexpected byte to stdout, and loses the last block of its own files of 8 or 24 bits; FFmpeg
#: does not support them.
_SDS = b"\xf0\x7e"
_PACK = b"\x00\x00\x01\xba"  # start of a program stream

#: The oddity of an Ogg file whose recorder was stopped, or that was cut between two pages.
UNENDED = "its last page does not say that the stream ends there"

BROKEN = (sf.SoundFileError, av.FFmpegError, OSError, ValueError, EOFError)


def words_of(error: Exception) -> str:
    """The message of one of BROKEN, without FFmpeg's number and its `<none>` for a file's name."""
    words = getattr(error, "strerror", None) or str(error)
    log = getattr(error, "log", None)
    return f"{words}; {in_words([log])[0]}" if log else words


class Suspect(Decoder):
    """Decoder of a file whose container may show damage without its place.

    After decoding, unless `explained()` says that the decoder's faults account for it, `what()`
    describes the damage (None: there is none). The fault begins at `since(samples)`: 0 is the whole
    recording, anything else its end.
    """

    def __init__(
        self,
        decoder: Decoder,
        what: Callable[[], str | None],
        explained: Callable[[], bool],
        since: Callable[[int], int],
    ) -> None:
        self._decoder, self._what, self._since = decoder, what, since
        self._explained = explained
        self.header, self.faults = decoder.header, decoder.faults

    def read(self, frames: int) -> Iterator[Samples]:
        """The decoder's blocks; damage that it missed then becomes a fault."""
        decoded = 0
        for block in self._decoder.read(frames):
            decoded += len(block)
            yield block
        if not self._explained() and (what := self._what()):
            since = self._since(decoded)
            self.faults.append(Fault(since, decoded, what, shifts=not since))

    def close(self) -> None:
        self._decoder.close()


@dataclass(frozen=True, slots=True)
class Opened:
    """A decoder, the bytes that it reads, and oddities that cost no audio."""

    decoder: Decoder
    file: BinaryIO
    notes: list[str]

    def noting(self, *notes: str) -> Opened:
        return replace(self, notes=[*notes, *self.notes])


def opened(
    file: BinaryIO,
    size: int,
    header_only: bool = False,
    track: int | None = None,
    headerless: str | None = None,
) -> Opened:
    """A decoder for a file of `size` bytes; with `header_only` it need not give samples. `track`
    and `headerless`: as in a Locator. ItemError `unreadable` if no library can open the file, or it
    lacks the track."""
    kind = file_kinds.BY_NAME.get(headerless or "")
    try:
        result = _by_name(file, size, kind) if kind else None
        result = result or _opened_anywhere(file, size, header_only, track)
    except ItemError as error:
        if headerless and error.code == "unreadable" and (no := file_kinds.rateless(headerless)):
            raise ItemError(error.code, no) from error
        raise
    if track and result.decoder.header.track != track:
        result.decoder.close()
        what = f"it has one audio track, and no track {track}, counted from 0"
        raise ItemError("unreadable", f"{what}; correct `track` of the source")
    return result


def _by_name(file: BinaryIO, size: int, kind: str) -> Opened | None:
    """A decoder for a file without a header that only its name tells; None for one that libsndfile
    recognises by its content."""
    with suppress(sf.SoundFileError):
        SoundFile(file, size).close()
        file.seek(0)
        return None
    if what := _no_audio(file):
        raise ItemError("unreadable", what)
    file.seek(0)
    try:
        return Opened(FFmpeg(file, size, kind=kind), file, [])
    except BROKEN as error:
        raise ItemError("unreadable", f"FFmpeg: {words_of(error)}; {AGAIN}") from error


def _opened_anywhere(file: BinaryIO, size: int, header_only: bool, track: int | None) -> Opened:
    """`opened`, also where other bytes precede the stream; does not check `track`."""

    def behind(places: Sequence[tuple[int, str]]) -> Opened | None:
        for before, name in places:
            stream = cast(BinaryIO, Window(file, before, size - before))
            with suppress(ItemError):
                result = _opened_at(stream, size - before, header_only, track)
                return result.noting(f"{before} bytes before its {name} are no part of it")
        return None

    tagged = file.read(3) == b"ID3"
    file.seek(0)
    if tagged and (tags := tags_before(file)) and (result := behind([(tags, "first header")])):
        return result
    try:
        result = _opened_at(file, size, header_only, track)
    except ItemError as error:
        late = behind(beginnings(file)) if error.code == "unreadable" else None
        if late is None:
            raise
        return late
    whole = isinstance(result.decoder, SoundFile | flac.Whole)
    if whole or not _begins_late(file, result):
        return result
    if (late := behind(beginnings(file))) is not None:
        result.decoder.close()
        return late
    return result


@undisturbed
def _begins_late(file: BinaryIO, result: Opened) -> bool:
    """Whether FFmpeg found frames behind other bytes: of FLAC without its marker, or of a program
    stream (MPEG-PS) without its header."""
    kind = result.decoder.header.format.partition("/")[0]
    file.seek(0)
    return (kind == "flac" and flac.flac_info(file) is None) or (
        kind == "mpeg" and file.read(4) != _PACK
    )


def _opened_at(file: BinaryIO, size: int, header_only: bool, track: int | None) -> Opened:
    """`opened` for a stream at the start of the file."""
    head = file.read(12)
    file.seek(0)
    if head.startswith(b"fLaC"):
        short = (flac.promised if header_only else flac.proved)(file, size)
        if short is not None:
            return Opened(short, file, [])
    audio = promise(file) if head.endswith(b"WAVE") else None
    if audio and audio.held > audio.promised and (whole := wav_sizes.whole(file, size, audio)):
        stream = cast(BinaryIO, whole)
        return Opened(_opened(stream, size_of(stream), None, track), stream, [whole.note])
    if head.startswith(ogg_pages.MAGIC) and (pages := ogg_pages.scan(file, size)) is not None:
        notes = [f"{pages.junk} bytes between its pages are no part of it"] if pages.junk else []
        notes += [UNENDED] if pages.unended else []
        joined = len(pages.links) > 1
        return Opened(Chained(file, pages) if joined else _opened(file, size, pages), file, notes)
    if head.startswith(UNCOUNTING) and (after := uncounted(file)):
        return _within(file, size, Edges(after=after), track)
    decoder = _opened(file, size, None, track)
    if isinstance(decoder, SoundFile):
        return Opened(decoder, file, [])
    edges = around(file, size, decoder.header.format.partition("/")[0])
    if edges.before or edges.after:
        decoder.close()
        return _within(file, size, edges, track)
    return Opened(decoder, file, decoder.notes if isinstance(decoder, FFmpeg) else [])


def _within(file: BinaryIO, size: int, edges: Edges, track: int | None) -> Opened:
    """`opened` for a file without the bytes at its edges. Tags at its end are normal."""
    length = size - edges.before - edges.after
    stream = cast(BinaryIO, Window(file, edges.before, length))
    decoder = _opened(stream, length, None, track)
    result = Opened(decoder, stream, decoder.notes if isinstance(decoder, FFmpeg) else [])
    if edges.after and not edges.tags:
        result = result.noting(f"{edges.after} bytes after its audio are no part of it")
    if edges.before:
        result = result.noting(f"{edges.before} bytes before its first frame are no part of it")
    return result


def _opened(
    file: BinaryIO, size: int, pages: ogg_pages.Pages | None, track: int | None = None
) -> Decoder:
    first, for_ffmpeg = "", _is_ffmpegs_own(file)
    if pages and pages.opus and pages.unended and not pages.faults:
        file = ogg_pages.ended(file, size, pages.unended)  # libsndfile would break at its end
    # libsndfile drops the pauses of a call.
    if not (pages and (pages.faults or pages.leaps)) and not for_ffmpeg:
        try:
            decoder = SoundFile(file, size)
            left_to_ffmpeg = decoder.header.format.startswith(_FFMPEGS_OWN)
            # It sees no audio in a file whose sizes were never written.
            audio = None if decoder.header.frames else promise(file)
            if not left_to_ffmpeg and not (audio and audio.unfinished):
                return decoder
            decoder.close()
        except sf.SoundFileError as error:
            first = f"libsndfile: {str(error).rpartition(': ')[2].rstrip('.')}; "
    file.seek(0)
    try:
        try:
            ffmpeg = FFmpeg(file, size, leaps=pages.leaps if pages else {}, track=track)
        except av.InvalidDataError as error:
            if EXTRA_BITS not in str(error):
                raise
            file.seek(0)
            ffmpeg = FFmpeg(file, size, check=False, track=track)
    except (av.FFmpegError, OSError, ValueError, EOFError) as error:
        raise ItemError("unreadable", _why_closed(file, first, words_of(error))) from error
    if pages and pages.faults:
        what = f"{len(pages.faults)} damaged or missing pages"
        # FFmpeg times the packets of the last page from earlier ones: it sees no hole there.
        seen, tail_only = not pages.before_last, pages.tail_only
        return Suspect(
            ffmpeg,
            lambda: what,
            lambda: seen and bool(ffmpeg.faults),
            lambda decoded: decoded if tail_only else 0,
        )
    if ffmpeg.header.format.startswith("mp3/"):
        # Frames rejected in one place explain a wrong checksum. If the decoder only complained, it
        # may have decoded other damaged frames silently.
        def since(decoded: int) -> int:
            # The checksum of a file without its end proves nothing; intact frames vouch for the
            # rest.
            end = max(decoded - mp3.FRAME, 0)
            alone = all(fault.start >= end for fault in ffmpeg.faults)
            return end if alone and mp3.ends_within_frame(file, size) else 0

        return Suspect(ffmpeg, partial(mp3.lame_fault, file, size), lambda: ffmpeg.one_place, since)
    return ffmpeg


@undisturbed
def _no_audio(file: BinaryIO) -> str | None:
    file.seek(0)
    return file_kinds.in_words(file.read(file_kinds.HEAD))


def _why_closed(file: BinaryIO, first: str, second: str) -> str:
    """Why neither library opens a file, by their messages, and what to do."""
    if what := _no_audio(file):
        return what
    if "moov atom not found" in second:
        return (
            "its index (the moov atom) is missing, as in an MP4 that is cut short or whose writer "
            f"was killed; {AGAIN}"
        )
    return f"{first}FFmpeg: {second}; {AGAIN}"


@undisturbed
def _is_ffmpegs_own(file: BinaryIO) -> bool:
    """Whether a file begins as a FLAC or an MPEG stream; libsndfile's MPEG reader writes to the
    terminal, so it must not see it. ItemError for what no library shall see."""
    head = file.read(4)
    if head.startswith(_SDS):
        what = "a MIDI sample dump (SDS), whose checksums no decoder here verifies"
        raise ItemError("unreadable", f"{what}; convert it to WAV")
    if head.startswith(b"ID3"):
        file.seek(mp3.id3_length(file))
        head = file.read(4)
    return head == b"fLaC" or (head[:1] == b"\xff" and len(head) > 1 and head[1] & 0xE0 == 0xE0)


class Chained(Decoder):
    """Decodes joined Ogg files (chained streams), each by itself, converted to the rate and
    channels of the first."""

    def __init__(self, file: BinaryIO, pages: ogg_pages.Pages) -> None:
        self._file, self._links = file, [link for link in pages.links if link[1]]
        self.faults: list[Fault] = []
        self._current = self._open(0)
        self.header = replace(self._current.header, frames=None)

    def _open(self, index: int) -> Decoder:
        offset, length = self._links[index]
        part = cast(BinaryIO, Window(self._file, offset, length))
        return _opened(part, length, ogg_pages.scan(part, length))

    def read(self, frames: int) -> Iterator[Samples]:
        rate, channels = self.header.rate, self.header.channels
        position = 0
        for index in range(len(self._links)):
            if index:
                self._current.close()
                self._current = self._open(index)
            header, start = self._current.header, position
            form = header.rate, header.channels
            same = form == (rate, channels)
            converter = None if same else PartConverter(*form, rate, channels, header.weights)
            try:
                for block in self._current.read(frames):
                    for ready in [block] if converter is None else converter.push(block):
                        position += len(ready)
                        yield ready
                for ready in [] if converter is None else converter.rest():
                    position += len(ready)
                    yield ready
            finally:
                self.faults += [f.moved(start, rate / header.rate) for f in self._current.faults]
        if len(self._links) >= MOST_LINKS:
            what = f"it joins more than {MOST_LINKS} files; the rest is not read: split the file"
            self.faults.append(Fault(position, position, what))

    def close(self) -> None:
        self._current.close()
