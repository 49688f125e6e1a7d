"""libsndfile and FFmpeg behind one door: `opened` gives a decoder for the bytes of a file.

libsndfile first; what it cannot open goes to FFmpeg (PyAV). A file that libsndfile opens and then
breaks on is failed, not tried again: two decoders that disagree on a broken file would make the
result depend on which of them is installed. Formats are told by content, never by extension.

FFmpeg gets a file object and a list of formats. It never sees a path, so that a playlist or a
concat script named `.m4a` cannot make it open other files or addresses.
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, BinaryIO, Protocol

import av
import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from tasks.container import is_chained_ogg, promise
from tasks.errors import ItemError

Samples = NDArray[np.float32]

#: PyAV looks for the end of a frame's planes by what follows them: from eight on, whatever does.
MOST_PLANES = 7
RETRY_FRAMES = 1024  # read again at once before a break: at most so many samples are lost
#: No lossless or lossy codec packs more samples into a byte; a header that claims more is lying.
FRAMES_PER_BYTE = 20_000

#: Formats whose seek is exact to the sample in libsndfile.
_SEEKABLE = {"WAV", "WAVEX", "RF64", "W64", "AIFF", "FLAC", "AU", "CAF"}
_PLAIN = ("PCM_", "FLOAT", "DOUBLE", "ULAW", "ALAW")

#: libsndfile reads an MPEG stream only up to the length that it estimates from the first frames or
#: from the Xing header: half of a file of varying bit rate without that header, and the first part
#: of joined files, with no error; and its floats differ by a bit from one decode to the next.
#: FFmpeg reads to the end and trims the encoder's padding alike.
_MPEG = "mp3/"

#: Demuxers that read one file of audio (or video). No playlist, script, image or device.
_FFMPEG_FORMATS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dts,dtshd,eac3,flac,flv,gsm,matroska,mov,mp3,"
    "mp4,mpc,mpc8,mpeg,mpegts,mxf,nistsphere,nut,ogg,oma,qcp,rm,tak,truehd,tta,voc,w64,wav,wtv,wv,"
    "xwma"
)
_FFMPEG_OPTIONS = {
    "format_whitelist": _FFMPEG_FORMATS,
    "protocol_whitelist": "none",
    "probesize": "5000000",  # bytes
    "analyzeduration": "5000000",  # microseconds
}


@dataclass(frozen=True, slots=True)
class Header:
    """What the header claims. `frames` None: it does not say, or says what cannot be."""

    rate: int
    channels: int
    frames: int | None
    format: str  # container/codec, say wav/pcm_16
    decoder: str  # soundfile | av


class Decoder(Protocol):
    header: Header

    def read(self, frames: int) -> Iterator[Samples]:
        """Blocks of at most `frames`, float32 [n, channels], to the end; raises one of BROKEN."""
        ...

    def skip_to(self, sample: int) -> bool:
        """Jump there if this format's seek is exact; else say no."""
        ...

    def close(self) -> None: ...


class SoundFile:
    """libsndfile on a file object."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._bytes = file
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


class FFmpeg:
    """FFmpeg on a file object: first audio stream, one thread, no change of rate or channels."""

    def __init__(self, file: BinaryIO) -> None:
        av.logging.set_level(None)
        self._container = av.open(
            _Nameless(file), "r", container_options=_FFMPEG_OPTIONS, io_open=_refuse
        )
        try:
            if not self._container.streams.audio:
                raise ItemError("unreadable", "it has no audio stream")
            stream = self._container.streams.audio[0]
            if stream.codec_context is None:  # a codec that FFmpeg has no decoder for
                raise ItemError("unreadable", "its codec is unknown")
            stream.codec_context.thread_count = 1
            _forget_order(stream.codec_context)
            self._frames = self._decode(stream)
            # The codec's own claim is wrong for HE-AAC and the like: the first frame knows.
            self._first = next(self._frames, None)
            context = stream.codec_context
            first = self._first
            self._promised = _stream_frames(stream, first)
            self.header = Header(
                first.sample_rate if first is not None else context.sample_rate,
                first.layout.nb_channels if first is not None else context.layout.nb_channels,
                self._promised,
                f"{self._container.format.name.split(',')[0]}/{context.name}".lower(),
                "av",
            )
        except BaseException:
            self._container.close()
            raise

    def _decode(self, stream: Any) -> Iterator[Any]:
        """Frames in order. An MPEG stream may be followed by junk: padding, tags, a web page."""
        junk: av.FFmpegError | None = None
        for packet in self._container.demux(stream):
            try:
                frames = packet.decode()
            except av.InvalidDataError as error:
                if self._container.format.name != "mp3":
                    raise
                junk = junk or error
                continue
            if junk is not None and frames:  # it was no junk: the stream is broken midway
                raise junk
            yield from frames

    def read(self, frames: int) -> Iterator[Samples]:
        """Blocks of exactly `frames`, but the last one and one before a change of sample format."""
        channels = self.header.channels
        held = av.AudioFifo()  # joins frames of some thousand values: each costs as much in Python
        frame = self._first
        try:
            while frame is not None:
                # The buffer itself does not look: it would read planes that are not there.
                if frame.layout.nb_channels != channels or frame.sample_rate != self.header.rate:
                    raise _Changed("rate or channels change midway")
                frame.pts = None  # or a gap between two frames would be an error
                try:
                    held.write(frame)
                except ValueError:  # another sample format
                    yield from _rest(held, channels)
                    held = av.AudioFifo()
                    held.write(frame)
                while held.samples >= frames:
                    yield _grid(held.read(frames), channels)
                frame = next(self._frames, None)
        except (av.FFmpegError, _Changed):
            yield from _rest(held, channels)
            raise
        yield from _rest(held, channels)

    def skip_to(self, sample: int) -> bool:
        return False

    def close(self) -> None:
        self._container.close()


def _forget_order(context: Any) -> None:
    """Channels in an unusual order become plain numbered ones: PyAV frees the list of such an order
    once for each copy of it, which ends the process."""
    layout = context.layout
    if " channels (" in layout.name:  # "3 channels (FC+FL+FR)"; the usual ones are "5.1(side)"
        _KEPT.append(layout)
        context.layout = f"{layout.nb_channels} channels"


_KEPT: list[Any] = []  # some bytes each, never freed: FFmpeg frees them


class _Changed(Exception):
    """The stream changes its rate or channels midway."""


class _Nameless:
    """A file object without a name, so that FFmpeg can judge by the content only."""

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.seek, self.tell = file.read, file.seek, file.tell


def _refuse(url: str, flags: int, options: dict[str, str]) -> Any:
    raise PermissionError(f"a recording may not open other files: {url}")


def _rest(held: av.AudioFifo, channels: int) -> Iterator[Samples]:
    if held.samples:
        yield _grid(held.read(), channels)


def _grid(frame: Any, channels: int) -> Samples:
    """The samples of a decoded frame, float32 [n, channels]; integers are scaled to ±1."""
    name, planar = frame.format.name, frame.format.is_planar
    packed = name.removesuffix("p") if planar else name
    if packed not in _FORMATS:
        raise ValueError(f"samples of format {name}")
    if planar and channels > MOST_PLANES:
        [frame] = av.AudioResampler(format=packed).resample(frame)
        planar = False
    kind, zero, full = _FORMATS[packed]
    count = frame.samples if planar else frame.samples * channels
    values = [np.frombuffer(plane, kind, count)
              for plane in frame.planes[: channels if planar else 1]]  # fmt: skip
    grid = np.empty((frame.samples, channels), np.float32)
    for channel in range(channels):
        column = values[channel] if planar else values[0][channel::channels]
        # In float64, so that 32-bit integers are rounded once.
        grid[:, channel] = column if full == 1.0 else (column - zero) / full
    return grid


#: Sample formats: numpy's type, zero level, full scale.
_FORMATS = {
    "u8": ("u1", 128.0, 128.0), "s16": ("i2", 0.0, 32768.0), "s32": ("i4", 0.0, 2147483648.0),
    "flt": ("f4", 0.0, 1.0), "dbl": ("f8", 0.0, 1.0),
}  # fmt: skip


def _stream_frames(stream: Any, first: Any) -> int | None:
    if first is None or stream.duration is None or stream.time_base is None:
        return None
    return max(round(stream.duration * stream.time_base * first.sample_rate), 0) or None


BROKEN = (sf.SoundFileError, av.FFmpegError, _Changed, OSError, ValueError, EOFError)


def _unfinished(decoder: Decoder, file: BinaryIO) -> bool:
    """Whether libsndfile finds no audio only because its size was never written."""
    if decoder.header.frames:
        return False
    found = promise(file)
    return found is not None and found.unfinished


def opened(file: BinaryIO, size: int) -> Decoder:
    """A decoder for a file of `size` bytes. ItemError `unreadable` where neither knows it."""
    first = "left to FFmpeg"
    try:
        if not is_chained_ogg(file, size):
            decoder = SoundFile(file, size)
            if not decoder.header.format.startswith(_MPEG) and not _unfinished(decoder, file):
                return decoder
            decoder.close()
    except sf.SoundFileError as error:
        first = str(error).rpartition(": ")[2]
    file.seek(0)
    try:
        return FFmpeg(file)
    except (av.FFmpegError, OSError, ValueError, EOFError) as error:
        raise ItemError("unreadable", f"libsndfile: {first}; FFmpeg: {error}") from error
