"""FFmpeg (PyAV) on a file object: what it decodes, what it says of it, and where."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, BinaryIO

import av
import numpy as np

from tasks.audio import matroska
from tasks.audio.checksums import Md5, flac_info
from tasks.audio.kinds import Header, Samples
from tasks.audio.like_first import LikeFirst
from tasks.errors import ItemError
from tasks.recording.faults import Fault

#: PyAV looks for the end of a frame's planes by what follows them: from eight on, whatever does.
MOST_PLANES = 7

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
#: Containers whose times are exact, and by how much they are rounded: a later time than the samples
#: before it account for is a hole. The times of others are estimates, or come from an index that
#: damage leaves as it is.
_ROUNDING = {"ogg": 0.0025, "flac": 0.0025, "matroska": 0.010, "wv": 0.0025, "tta": 0.0025}  # s
#: Codecs whose frames have a checksum, which FFmpeg looks at when it is asked to.
_CHECKED = {"flac", "wavpack", "tta"}
#: FFmpeg's own WavPack encoder gets one checksum of 32-bit samples wrong, and its decoder says so.
EXTRA_BITS = "Extra bits CRC error"
#: No lossless or lossy codec packs more samples into a byte; a header that claims more is lying.
FRAMES_PER_BYTE = 20_000
_MARGIN = 0.1  # s by which the time of a cluster may differ from that of its samples
_PAGE = 1.5  # s; FFmpeg ends a page of FLAC after one
_FLAC_FRAME = 4608  # samples of a frame, at most, in the subset that nearly all encoders keep to
#: More is not filled, of one recording: damaged times could ask for years.
MOST_FILLED = 3600.0  # s
#: In these, bytes after the last frame are padding, tags or a web page more often than audio.
_LOOSE_END = {"mp3", "aac"}

logging.getLogger("libav").addHandler(logging.NullHandler())
logging.getLogger("libav").propagate = False  # what FFmpeg says is a fault, or nobody's concern


class FFmpeg:
    """First audio stream, one thread. Rate and channels are those of its first frame: later parts
    of another kind are resampled and mixed, as a player does."""

    def __init__(self, file: BinaryIO, size: int, check: bool = True) -> None:
        av.logging.set_level(None)
        self.faults: list[Fault] = []
        self._first: Any = None
        self._info = flac_info(file)
        self._wrong_times = matroska.damaged_spans(file, size)
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
            if check and stream.codec_context.name in _CHECKED:
                stream.codec_context.options = {"err_detect": "crccheck+explode"}
            _forget_order(stream.codec_context)
            self._name = self._container.format.name.split(",")[0]
            self._frames = self._decode(stream)
            # The codec's own claim is wrong for HE-AAC and the like: the first frame knows.
            self._first, before = next(self._frames, (None, ""))
            self._late = bool(before) and stream.codec_context.name in _CHECKED
            context = stream.codec_context
            first = self._first
            self.header = Header(
                first.sample_rate if first is not None else context.sample_rate,
                first.layout.nb_channels if first is not None else context.layout.nb_channels,
                _stream_frames(stream, first, size),
                f"{self._name}/{_codec(self._name, context)}".lower(),
                "av",
            )
            if not (self.header.rate > 0 and self.header.channels > 0):
                raise ItemError("unreadable", "no frame of it can be decoded")
        except BaseException:
            self._container.close()
            raise

    def _decode(self, stream: Any) -> Iterator[tuple[Any, str]]:
        """(frame, what FFmpeg said since the one before) in order; (None, …) at the end. An MPEG
        stream may be followed by junk: padding, tags, a web page."""
        junk: av.FFmpegError | None = None
        packets = self._container.demux(stream)
        said: list[str] = []
        while True:
            with _listening(said):
                packet = next(packets, None)
                if packet is None:
                    break
                try:
                    frames = packet.decode()
                except av.InvalidDataError as error:
                    one = stream.codec_context.name in _CHECKED and EXTRA_BITS not in str(error)
                    if one:  # frame; the time of the next one shows what is missing
                        said.append(str(error)[:100])
                        continue
                    if self._container.format.name != "mp3":
                        raise
                    junk = junk or error
                    continue
            if junk is not None and frames:  # it was no junk: the stream is broken midway
                raise junk
            for frame in frames:
                yield frame, "; ".join(said)
                said.clear()
        yield None, "; ".join(said)

    def read(self, frames: int) -> Iterator[Samples]:
        """Blocks of exactly `frames`, but the last one and those before a change or a hole."""
        md5 = Md5(self._info) if self._info else None
        at = 0
        for block in self._blocks(frames):
            at += len(block)
            if md5 is not None:
                md5.add(block)
            yield block
        for start, end in self._wrong_times:
            first = max(round((start - _MARGIN) * self.header.rate), 0)
            last = at if end is None else min(round((end + _MARGIN) * self.header.rate), at)
            self.faults.append(Fault(min(first, at), last, "the checksum of a cluster is wrong"))
        if md5 is None or self._changed or not md5.exact:
            return
        if not md5.differs():  # whatever FFmpeg found odd, these are the samples
            self.faults.clear()
            return
        promised = self._info.frames if self._info and self._info.frames else at
        if at < promised - _FLAC_FRAME or (at < promised and not self.faults):
            code = "decode_error" if self.faults else "truncated"
            raise ItemError(code, f"{promised} samples promised, {at} there")
        if at < promised:  # the last frame is damaged
            self.faults.append(Fault(at, promised, "its last frame is missing"))
            yield from self._silence(promised - at, frames)
        elif not self.faults:
            self.faults.append(Fault(0, at, "its MD5 is of other samples", shifts=True))

    def _blocks(self, frames: int) -> Iterator[Samples]:
        channels, rate = self.header.channels, self.header.rate
        held = av.AudioFifo()  # joins frames of some thousand values: each costs as much in Python
        like_first: LikeFirst | None = None  # of a part with another rate or channels
        kind = (rate, channels)
        self._changed = False
        # Samples until now; the next frame's time in samples: 0 where the first did not decode.
        self._at, expected = 0, 0.0 if self._late else None
        self._timed = 0  # samples whose time is known
        self._filled_seconds = 0.0
        self._complained = self._late  # FFmpeg, since the last frame whose time is known
        frame, said = self._first, ""  # what was said of the header is not of samples
        try:
            while frame is not None:
                if (frame.sample_rate, frame.layout.nb_channels) != kind:
                    yield from self._counted(_rest(held, kind[1]), like_first)
                    held = av.AudioFifo()
                    if like_first is not None:
                        yield from self._counted(like_first.rest(), None)
                    kind = (frame.sample_rate, frame.layout.nb_channels)
                    same = kind == (rate, channels)
                    like_first = None if same else LikeFirst(*kind, rate, channels)
                    self._changed, expected = True, None
                now = self._at + held.samples
                self._complained = self._complained or bool(said)
                hole, expected = self._hole(frame, expected)
                if hole:
                    yield from self._counted(_rest(held, kind[1]), like_first)
                    held = av.AudioFifo()
                    yield from self._filled(hole, frames)
                elif said or frame.is_corrupt:
                    self.faults.append(Fault(now, now + frame.samples, said or "a corrupt frame"))
                if frame.pts is not None:
                    self._timed = self._at + held.samples + frame.samples
                frame.pts = None  # or a gap between two frames would be an error
                try:
                    held.write(frame)
                except ValueError:  # another sample format
                    yield from self._counted(_rest(held, kind[1]), like_first)
                    held = av.AudioFifo()
                    held.write(frame)
                while held.samples >= frames:
                    yield from self._counted([_grid(held.read(frames), kind[1])], like_first)
                frame, said = next(self._frames, (None, ""))
        except av.FFmpegError:
            yield from self._counted(_rest(held, kind[1]), like_first)
            raise
        yield from self._counted(_rest(held, kind[1]), like_first)
        if like_first is not None:
            yield from self._counted(like_first.rest(), None)
        if said and self._name not in _LOOSE_END:
            self.faults.append(Fault(self._at, self._at, said))

    def _counted(self, blocks: Any, like_first: LikeFirst | None) -> Iterator[Samples]:
        for block in blocks:
            for ready in [block] if like_first is None else like_first.push(block):
                self._at += len(ready)
                yield ready

    def _hole(self, frame: Any, expected: float | None) -> tuple[int, float | None]:
        """(samples missing before a frame, time after it in samples). 0: none, or times tell
        nothing."""
        if self._name not in _ROUNDING or self._changed:
            return 0, None
        if frame.pts is None or frame.time_base is None:  # after damage; the next one knows
            return 0, None if expected is None else expected + frame.samples
        now = float(frame.pts * frame.time_base * frame.sample_rate)
        # A FLAC frame has its number, and its time only if the header is right about their size.
        sure = self._name != "flac" or self._complained
        late = 0.0 if expected is None or not sure else now - expected
        self._complained = False
        slack = max(_ROUNDING[self._name] * frame.sample_rate, 2)
        if late < -slack:
            at = self._at
            self.faults.append(Fault(at, at, "its times go back", shifts=True))
        return (round(late) if late > slack else 0), now + frame.samples

    def _filled(self, hole: int, frames: int) -> Iterator[Samples]:
        """Silence in the place of what is missing, so that all after it keeps its time."""
        seconds = hole / self.header.rate
        self._filled_seconds += seconds
        if self._filled_seconds > MOST_FILLED:
            self._filled_seconds -= seconds
            self.faults.append(Fault(self._at, self._at, f"{seconds:.3f} s missing", shifts=True))
            return
        # FFmpeg notices a hole in such a file only at the end of the page that follows it.
        late = max(hole, _PAGE * self.header.rate) if self.header.format == "ogg/flac" else 0
        start = max(min(self._timed, self._at - round(late)), 0)
        self.faults.append(Fault(start, self._at + hole, f"{seconds:.3f} s missing"))
        self._at += hole
        yield from self._silence(hole, frames)

    def _silence(self, count: int, frames: int) -> Iterator[Samples]:
        for at in range(0, count, frames):
            yield np.zeros((min(frames, count - at), self.header.channels), np.float32)

    def skip_to(self, sample: int) -> bool:
        return False

    def close(self) -> None:
        self._container.close()


@contextmanager
def _listening(said: list[str]) -> Iterator[None]:
    """What FFmpeg reports as an error meanwhile is added to `said`, in its words."""
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture() as heard:
            try:
                yield
            finally:
                said += [f"{name}: {' '.join(words.split())}"[:100] for _, name, words in heard]
    finally:
        av.logging.set_level(None)


def _forget_order(context: Any) -> None:
    """Channels in an unusual order become plain numbered ones: PyAV frees the list of such an order
    once for each copy of it, which ends the process."""
    layout = context.layout
    if " channels (" in layout.name:  # "3 channels (FC+FL+FR)"; the usual ones are "5.1(side)"
        _KEPT.append(layout)
        context.layout = f"{layout.nb_channels} channels"


_KEPT: list[Any] = []  # some bytes each, never freed: FFmpeg frees them


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
    "s64": ("i8", 0.0, 2.0**63), "flt": ("f4", 0.0, 1.0), "dbl": ("f8", 0.0, 1.0),
}  # fmt: skip


def _codec(container: str, context: Any) -> str:
    """The codec's name; of a FLAC file the samples it holds, as libsndfile calls them, because
    `duplicate` prefers 24 bits to 16."""
    info = bytes(context.extradata or b"")
    if container != "flac" or len(info) < 14:
        return str(context.name)
    # STREAMINFO (RFC 9639, section 8.2): 5 bits from bit 103 on are the sample's bits less one.
    bits = ((info[12] & 1) << 4 | info[13] >> 4) + 1
    return next((name for most, name in ((8, "pcm_s8"), (16, "pcm_16"), (24, "pcm_24"))
                 if bits <= most), "pcm_32")  # fmt: skip


def _stream_frames(stream: Any, first: Any, size: int) -> int | None:
    if first is None or stream.duration is None or stream.time_base is None:
        return None
    frames = round(stream.duration * stream.time_base * first.sample_rate)
    return frames if 0 < frames <= size * FRAMES_PER_BYTE else None
