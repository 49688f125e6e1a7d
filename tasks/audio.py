"""Sole owner of decoding: only this file imports soundfile and PyAV.

libsndfile first; what it cannot open goes to FFmpeg (PyAV). A file that libsndfile opens and then
breaks on is failed, not tried again: two decoders that disagree on a broken file would make the
result depend on which of them is installed. Formats are told by content, never by extension.

FFmpeg gets a file object and a list of formats. It never sees a path, so that a playlist or a
concat script named `.m4a` cannot make it open other files or addresses.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property
from types import TracebackType
from typing import Any, BinaryIO, Protocol, Self

import av
import numpy as np
import soundfile as sf
from numpy.typing import NDArray

from tasks.container import as_file, digest, is_chained_ogg, promise, size_of
from tasks.errors import ItemError
from tasks.extensions import KNOWN_EXTENSIONS
from tasks.recording import Locator

__all__ = [
    "BLOCK_FRAMES", "KNOWN_EXTENSIONS", "MP3_FRAME", "MP3_RATES", "Clip", "Header", "Stream",
    "as_file", "digest", "open_stream", "probe", "read_span", "wav_header", "write_flac_bytes",
    "write_mp3_bytes", "write_wav_bytes",
]  # fmt: skip

Samples = NDArray[np.float32]

BLOCK_FRAMES = 65536
RETRY_FRAMES = 1024  # read again at once before a break: at most so many samples are lost
BLOCK_VALUES = 1 << 21  # frames x channels of a block: 8 MB, however many channels there are
LOWEST_RATE, HIGHEST_RATE = 1_000, 768_000  # Hz
MATERIALISE_SECONDS = 600.0
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

MP3_RATES = {8000, 11025, 12000, 16000, 22050, 24000, 32000, 44100, 48000}  # Hz
MP3_FRAME = 1152  # samples of a frame, at most

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


class _Decoder(Protocol):
    header: Header

    def read(self, frames: int) -> Iterator[Samples]: ...
    def close(self) -> None: ...


class _SoundFile:
    """libsndfile on a file object."""

    def __init__(self, file: BinaryIO, size: int) -> None:
        self._bytes = file
        self._file = info = self._open()
        # soundfile seeks after every read to where it is already; in OGG and MP3 that is slow and
        # not exact. Nothing here needs that seek.
        self.seek = info.seek
        info.seekable = lambda: False
        frames: int | None = info.frames
        if info.frames < 0 or info.frames > size * FRAMES_PER_BYTE:
            frames = None
        name = f"{info.format}/{info.subtype}".lower()
        self.header = Header(info.samplerate, info.channels, frames, name, "soundfile")
        self.exact_seek = info.format in _SEEKABLE and info.subtype.startswith(_PLAIN)

    def _open(self) -> Any:
        # By descriptor where there is one: a name would make soundfile take `.raw` for headerless
        # PCM, and libsndfile guess formats by extension.
        named = isinstance(self._bytes, io.FileIO)
        return sf.SoundFile(self._bytes.fileno() if named else self._bytes, closefd=False)

    def read(self, frames: int) -> Iterator[Samples]:
        at = self._file.tell() if self.exact_seek else 0  # it seeks, see above
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


class _FFmpeg:
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
        """Blocks of exactly `frames`, the last one shorter."""
        held = av.AudioFifo()  # joins frames of some thousand values: each costs as much in Python
        frame = self._first
        try:
            while frame is not None:
                _push(held, frame)
                while held.samples >= frames:
                    yield _grid(held.read(frames))
                frame = next(self._frames, None)
        except (av.FFmpegError, _Changed):
            yield from _rest(held)
            raise
        yield from _rest(held)

    def close(self) -> None:
        self._container.close()


class _Changed(Exception):
    """The stream changes its rate or channels midway."""


class _Nameless:
    """A file object without a name, so that FFmpeg can judge by the content only."""

    def __init__(self, file: BinaryIO) -> None:
        self.read, self.seek, self.tell = file.read, file.seek, file.tell


def _refuse(url: str, flags: int, options: dict[str, str]) -> Any:
    raise PermissionError(f"a recording may not open other files: {url}")


def _push(held: av.AudioFifo, frame: Any) -> None:
    frame.pts = None  # or a gap between two frames would be an error
    try:
        held.write(frame)
    except ValueError:
        raise _Changed("rate, channels or sample format change midway") from None


def _rest(held: av.AudioFifo) -> Iterator[Samples]:
    if held.samples:
        yield _grid(held.read())


def _grid(frame: Any) -> Samples:
    """The samples of a decoded frame, float32 [n, channels]."""
    planes = _planes(frame)
    grid = np.empty((frame.samples, len(planes)), np.float32)
    for channel, plane in enumerate(planes):
        grid[:, channel] = plane
    return grid


def _stream_frames(stream: Any, first: Any) -> int | None:
    if first is None or stream.duration is None or stream.time_base is None:
        return None
    return max(round(stream.duration * stream.time_base * first.sample_rate), 0) or None


def _planes(frame: Any) -> Sequence[NDArray[Any]]:
    """The channels of a decoded frame, each float [n]; integers are scaled to ±1."""
    if frame.format.name == "fltp":  # mp3, aac, opus: PyAV's own way takes three times as long
        return [np.frombuffer(p, np.float32, count=frame.samples) for p in frame.planes]
    values = frame.to_ndarray()
    grid = values if frame.format.is_planar else values.reshape(-1, frame.layout.nb_channels).T
    zero, full = _SCALES.get(grid.dtype.str[1:], (0.0, 1.0))
    # In float64, so that 32-bit integers are rounded once.
    scaled: NDArray[Any] = (grid - zero) / full if full != 1.0 else grid
    return list(scaled)


#: Integer sample formats: zero level and full scale.
_SCALES = {"u1": (128.0, 128.0), "i2": (0.0, 32768.0), "i4": (0.0, 2147483648.0)}


_BROKEN = (sf.SoundFileError, av.FFmpegError, _Changed, OSError, ValueError, EOFError)


class Stream:
    """A recording being decoded, once, in order. `decoded` counts the samples so far."""

    def __init__(self, locator: Locator) -> None:
        self._file = as_file(locator)
        self.decoded = 0
        try:
            self._size = size_of(self._file)
            if not self._size:
                raise ItemError("empty", "the file has no bytes")
            self._decoder = _open(self._file, self._size)
        except BaseException:
            self._file.close()
            raise
        self.header = self._decoder.header
        self.rate, self.channels = self.header.rate, self.header.channels
        self.format = self.header.format
        if not LOWEST_RATE <= self.rate <= HIGHEST_RATE:
            self.close()
            raise ItemError("bad_sample_rate", f"{self.rate} Hz")

    def blocks(self, frames: int = BLOCK_FRAMES) -> Iterator[Samples]:
        """float32 [n, channels]; raises ItemError `decode_error`, `truncated`, `non_finite` or
        `empty` with what was decoded until then. Samples after a NaN are counted, not delivered.
        """
        frames = max(min(frames, BLOCK_VALUES // max(self.channels, 1)), 1)
        finite = True
        try:
            for block in self._decoder.read(frames):
                self.decoded += len(block)
                finite = finite and bool(np.isfinite(block).all())
                if finite:
                    yield block
        except _BROKEN as error:
            raise self._error("decode_error", str(error)) from error
        if not finite:
            raise self._error("non_finite", "samples are NaN or infinite")
        if not self.decoded:
            raise self._error("empty", "it decodes to no samples")
        self._check_promise()

    def _check_promise(self) -> None:
        if self.header.decoder != "soundfile":
            return
        found = promise(self._file)
        if found is not None and found.broken:
            raise self._error(
                "truncated", f"{found.promised} bytes of audio promised, {found.held} there"
            )

    def skip_to(self, sample: int) -> bool:
        """Jump there if this format's seek is exact; else say no."""
        if not isinstance(self._decoder, _SoundFile) or not self._decoder.exact_seek:
            return False
        try:
            self._decoder.seek(sample)
        except sf.SoundFileError:
            return False
        return True

    def _error(self, code: str, detail: str) -> ItemError:
        return ItemError(code, detail, self.decoded, self.rate)

    def close(self) -> None:
        self._decoder.close()
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        at: TracebackType | None,
    ) -> None:
        self.close()


def _unfinished(decoder: _Decoder, file: BinaryIO) -> bool:
    """Whether libsndfile finds no audio only because its size was never written."""
    if decoder.header.frames:
        return False
    found = promise(file)
    return found is not None and found.unfinished


def _open(file: BinaryIO, size: int) -> _Decoder:
    first = "left to FFmpeg"
    try:
        if not is_chained_ogg(file, size):
            decoder = _SoundFile(file, size)
            if not decoder.header.format.startswith(_MPEG) and not _unfinished(decoder, file):
                return decoder
            decoder.close()
    except sf.SoundFileError as error:
        first = str(error).rpartition(": ")[2]
    file.seek(0)
    try:
        return _FFmpeg(file)
    except (av.FFmpegError, OSError, ValueError, EOFError) as error:
        raise ItemError("unreadable", f"libsndfile: {first}; FFmpeg: {error}") from error


def open_stream(locator: Locator) -> Stream:
    """Open a recording. ItemError: `missing`, `empty`, `unreadable`, `bad_sample_rate`."""
    return Stream(locator)


def probe(locator: Locator) -> Header:
    """Read the header only; raises what `open_stream` raises, and `empty` where it says so."""
    with open_stream(locator) as stream:
        if stream.header.frames == 0:
            raise ItemError("empty", "the header says that there is no audio", 0, stream.rate)
        return stream.header


def read_span(locator: Locator, start: int, stop: int) -> Samples:
    """Samples `start` to `stop` of a recording, float32 [stop - start, channels].

    Exact to the sample for every codec: it decodes from the beginning unless seeking is exact.
    """
    pieces = list(_span_blocks(locator, start, stop))
    return np.concatenate(pieces) if len(pieces) != 1 else pieces[0]


def _span_blocks(locator: Locator, start: int, stop: int) -> Iterator[Samples]:
    with open_stream(locator) as stream:
        at = start if stream.skip_to(start) else 0
        for block in stream.blocks():
            low, high = max(start - at, 0), min(stop - at, len(block))
            if low < high:
                yield block[low:high]
            at += len(block)
            if at >= stop:
                return
        raise ItemError("decode_error", f"it ends at sample {at}, before {stop}", at, stream.rate)


@dataclass(frozen=True)
class Clip:
    """One utterance: native rate, all channels, float32 in ±1.

    Held in memory, or decoded again whenever it is asked for (`lazy`, for long ones): measures
    that go through `blocks()` need the memory of a block whatever the length.
    """

    rate: int
    channels: int
    num_samples: int
    header_seconds: float | None = None  # the header's claim, where it is of all the recording
    recording_bytes: int = 0  # encoded size of the whole recording
    pieces: tuple[Samples, ...] | None = None  # in order, as they were decoded
    source: tuple[Locator, int, int] | None = None

    @classmethod
    def of(
        cls, samples: NDArray[Any], rate: int, header_seconds: float | None = None,
        recording_bytes: int = 0,
    ) -> Clip:  # fmt: skip
        """A clip of samples [n] or [n, channels] in memory."""
        grid = np.asarray(samples, dtype=np.float32)
        grid = grid[:, None] if grid.ndim == 1 else grid
        return cls(rate, grid.shape[1], len(grid), header_seconds, recording_bytes, (grid,))

    @classmethod
    def of_pieces(cls, pieces: Sequence[Samples], rate: int) -> Clip:
        """A clip of float32 [n, channels] that follow each other in memory; at least one."""
        return cls(rate, pieces[0].shape[1], sum(map(len, pieces)), pieces=tuple(pieces))

    @classmethod
    def lazy(
        cls, locator: Locator, start: int, stop: int, rate: int, channels: int,
        header_seconds: float | None = None, recording_bytes: int = 0,
    ) -> Clip:  # fmt: skip
        """A clip that is decoded again from the recording whenever its samples are read."""
        count = stop - start
        where = (locator, start, stop)
        return cls(rate, channels, count, header_seconds, recording_bytes, source=where)

    def of_recording(self, header_seconds: float | None, recording_bytes: int) -> Clip:
        """The same clip, knowing its recording."""
        return replace(self, header_seconds=header_seconds, recording_bytes=recording_bytes)

    @property
    def is_lazy(self) -> bool:
        return self.pieces is None

    @property
    def seconds(self) -> float:
        return self.num_samples / self.rate

    def samples(self) -> Samples:
        """float32 [num_samples, channels]. ValueError for a lazy clip of more than 600 s."""
        if self.pieces is None and self.seconds > MATERIALISE_SECONDS:
            raise ValueError(f"a clip of {self.seconds:.0f} s is read by blocks(), not at once")
        return self._read

    @cached_property
    def _read(self) -> Samples:
        if self.pieces is not None:
            return self.pieces[0] if len(self.pieces) == 1 else np.concatenate(self.pieces)
        assert self.source is not None
        return read_span(*self.source)

    def blocks(self, frames: int = BLOCK_FRAMES) -> Iterator[Samples]:
        """The same samples in order, float32 [n, channels], n at most `frames`."""
        if self.pieces is not None:
            for piece in self.pieces:
                for at in range(0, len(piece), frames):
                    yield piece[at : at + frames]
        elif self.source is not None:
            yield from _span_blocks(*self.source)


def wav_header(num_samples: int, rate: int) -> bytes:
    """The canonical 44 bytes before mono int16 samples."""
    size = 2 * num_samples
    form = (16, 1, 1, rate, 2 * rate, 2, 16)
    return _WAV.pack(b"RIFF", 36 + size, b"WAVE", b"fmt ", *form, b"data", size)


_WAV = struct.Struct("<4sI4s4sIHHIIHH4sI")


def write_wav_bytes(pcm: NDArray[np.int16], rate: int) -> bytes:
    """Mono int16 as WAV with the canonical header of 44 bytes; the same bytes every time."""
    return wav_header(len(pcm), rate) + np.ascontiguousarray(pcm, dtype="<i2").tobytes()


def write_flac_bytes(pcm: NDArray[np.int16], rate: int) -> bytes:
    """Mono int16 as 16-bit FLAC: smaller, and the same samples when it is decoded."""
    memory = io.BytesIO()
    sf.write(memory, np.ascontiguousarray(pcm, dtype=np.int16), rate, "PCM_16", format="FLAC")
    return memory.getvalue()


def write_mp3_bytes(pcm: NDArray[np.int16], rate: int, bit_rate: int = 128_000) -> bytes:
    """Mono int16 as MP3 of `bit_rate` bit/s, or the most that its rate allows, with the length that
    a decoder cuts its padding off by. `rate` is one of MP3_RATES."""
    memory = io.BytesIO()
    with av.open(memory, "w", format="mp3") as out:
        stream: Any = out.add_stream("libmp3lame", rate=rate, layout="mono")
        stream.codec_context.format, stream.bit_rate = "s16p", bit_rate
        frame = av.AudioFrame.from_ndarray(
            np.ascontiguousarray(pcm, dtype=np.int16)[None], format="s16p", layout="mono"
        )
        frame.sample_rate, frame.pts = rate, 0
        for each in (frame, None):
            out.mux(stream.encode(each))
    return memory.getvalue()


def decode_int16(data: bytes) -> tuple[NDArray[np.int16], int]:
    """Decode a whole mono file in memory as int16 [n], without any conversion; (samples, Hz).

    ItemError `decode_error` when it is no audio.
    """
    try:
        samples, rate = sf.read(io.BytesIO(data), dtype="int16")
    except _BROKEN as error:
        raise ItemError("decode_error", str(error)) from None
    return samples, int(rate)
