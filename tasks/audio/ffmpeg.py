"""FFmpeg (PyAV) on a file object: what it decodes, what it says of it, and where."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, BinaryIO

import av
import numpy as np

from tasks.audio import adts, holes, matroska
from tasks.audio.checksums import Md5, flac_info, frame_bytes, has_frame_count
from tasks.audio.frames import grid, rest
from tasks.audio.holes import Gap
from tasks.audio.kinds import Header, Samples
from tasks.audio.like_first import LikeFirst
from tasks.errors import ItemError
from tasks.recording.faults import Fault, bridged

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
#: Codecs whose frames all have a checksum; FFmpeg drops those in which it is wrong.
_CHECKED = {"flac", "wavpack", "tta"}
_DROP_WRONG = "crccheck+explode"
#: What FFmpeg looks at in other codecs when it is asked to, and goes on after: the checksums of
#: AC-3, E-AC-3 and of MPEG frames that have one, and how many bits a frame takes.
_LOOK_CLOSELY = "crccheck+bitstream+buffer"
#: FFmpeg's own WavPack encoder gets one checksum of 32-bit samples wrong, and its decoder says so.
EXTRA_BITS = "Extra bits CRC error"
#: No lossless or lossy codec packs more samples into a byte; a header that claims more is lying.
FRAMES_PER_BYTE = 20_000
_MARGIN = 0.1  # s by which the time of a cluster may differ from that of its samples
_PAGE = 1.5  # s; FFmpeg ends a page of FLAC after one
_FLAC_FRAME = 4608  # samples of a frame, at most, in the subset that nearly all encoders keep to
#: More is not filled, of one recording: damaged times could ask for years.
MOST_FILLED = 3600.0  # s
#: In these, bytes before the first frame and after the last one are padding, tags or a web page
#: more often than audio.
_LOOSE_END = {"mp3"}
_TAGS = (b"TAG", b"ID3", b"APETAGEX", b"LYRICSBEGIN")
#: Between two complaints that are closer, a decoder without checksums makes sound of anything.
_NEAR = 0.5  # s

logging.getLogger("libav").addHandler(logging.NullHandler())
logging.getLogger("libav").propagate = False  # what FFmpeg says is a fault, or nobody's concern


class FFmpeg:
    """First audio stream, one thread. A packet that the decoder rejects is left out, as `ffmpeg`
    does, and is a fault. Rate and channels are those of its first frame: later parts
    of another kind are resampled and mixed, as a player does."""

    def __init__(self, file: BinaryIO, size: int, check: bool = True) -> None:
        av.logging.set_level(None)
        self.faults: list[Fault] = []
        self.one_place = False  # packets were rejected, all close to each other
        self._first: Any = None
        self._info = flac_info(file)
        self._wrong_times = matroska.damaged_spans(file, size)
        self._astray_after = adts.first_break(file, size)
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
            self._checked = stream.codec_context.name in _CHECKED
            if check or not self._checked:
                detect = _DROP_WRONG if self._checked else _LOOK_CLOSELY
                stream.codec_context.options = {"err_detect": detect}
            _forget_order(stream.codec_context)
            self._name = self._container.format.name.split(",")[0]
            self._counts_frames = self._name == "mp3" and _aside(file, has_frame_count)
            self._frames = self._decode(stream)
            # The codec's own claim is wrong for HE-AAC and the like: the first frame knows.
            self._first, self._before = next(self._frames)
            if self._first is None and self._before.packets:
                what = f"none of its packets can be decoded: {self._before.words}"
                raise ItemError("unreadable", what)
            if not self._before.packets and not self._checked:
                self._before.said.clear()  # what was said of the header is not of samples
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

    def _decode(self, stream: Any) -> Iterator[tuple[Any, Gap]]:
        """(frame, what happened since the one before) in order; (None, …) at the end."""
        packets = self._container.demux(stream)
        gap, done, self._usual = Gap(), 0, 0
        pcm = stream.codec_context.name.startswith("pcm_")
        while True:
            with _listening(gap.said):
                try:
                    packet = next(packets, None)
                except IndexError:  # PyAV: a packet of a stream that began after the header
                    packets = self._container.demux(stream)
                    continue
                if packet is None:
                    break
                frames: list[Any] = []
                failed: av.FFmpegError | None = None
                try:
                    frames = packet.decode()
                except MemoryError:
                    raise
                except av.FFmpegError as error:
                    failed = error
            if failed is not None:
                self._drop(packet, failed, gap)
            if packet.size:
                done += 1
                gap.astray = gap.astray or done == self._astray_after
            if packet.is_corrupt and not pcm:  # of PCM that is where the file ends
                gap.said.append("a corrupt packet")
            for frame in frames:
                self._usual = packet.size or self._usual
                yield frame, gap
                gap = Gap()
        yield None, gap

    def _drop(self, packet: Any, error: av.FFmpegError, gap: Gap) -> None:
        data = bytes(packet)
        if self._name in _LOOSE_END and data.startswith(_TAGS):
            gap.said.clear()  # of a file that was joined
        elif EXTRA_BITS in str(error):
            raise error
        else:
            gap.said = gap.said or [error.strerror or str(error)]
            gap.packets += 1
            gap.size += packet.size
            own = {"mp3": frame_bytes, "aac": adts.frame_bytes}.get(self._name)
            gap.frames += own is not None and own(data) == packet.size

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
        if not self._checked:
            self._settle(at)
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

    def _settle(self, decoded: int) -> None:
        """What is known of the faults when all is decoded."""
        promised = self.header.frames if self._guessed and self._counts_frames else None
        # FFmpeg cuts off less padding, or more, where packets are missing.
        if promised is not None and abs(decoded - promised) < self._frame:
            self.faults[:] = [replace(f, shifts=False) for f in self.faults]
        self.faults[:] = bridged(self.faults, round(_NEAR * self.header.rate))
        self.one_place = self._rejected and len(self.faults) == 1

    def _blocks(self, frames: int) -> Iterator[Samples]:
        channels, rate = self.header.channels, self.header.rate
        held = av.AudioFifo()  # joins frames of some thousand values: each costs as much in Python
        like_first: LikeFirst | None = None  # of a part with another rate or channels
        kind = (rate, channels)
        self._changed = self._guessed = self._rejected = False
        # Samples until now; the next frame's time in samples: 0 where the first did not decode.
        frame, gap = self._first, self._before
        late = bool(gap.said or gap.packets)
        self._at, expected = 0, 0.0 if late else None
        self._timed = self._frame = 0  # samples whose time is known; of the longest frame
        self._filled_seconds = 0.0
        self._complained = late  # FFmpeg, since the last frame whose time is known
        if self._name in _LOOSE_END or not gap.packets:
            gap = Gap(astray=gap.astray)
        try:
            while frame is not None:
                if (frame.sample_rate, frame.layout.nb_channels) != kind:
                    yield from self._counted(rest(held, kind[1]), like_first)
                    held = av.AudioFifo()
                    if like_first is not None:
                        yield from self._counted(like_first.rest(), None)
                    kind = (frame.sample_rate, frame.layout.nb_channels)
                    same = kind == (rate, channels)
                    like_first = None if same else LikeFirst(*kind, rate, channels)
                    self._changed, expected = True, None
                self._frame = max(self._frame, frame.samples)
                self._complained = self._complained or bool(gap.said)
                hole, expected = self._hole(frame, expected)
                guess = hole is None and bool(gap.packets)
                if guess:
                    hole = holes.guess(self._name, gap, frame.samples, self._usual)
                if hole:
                    yield from self._counted(rest(held, kind[1]), like_first)
                    held = av.AudioFifo()
                    yield from self._filled(hole, frames, gap, guess)
                now = self._at + held.samples
                self._rejected = self._rejected or bool(gap.packets)
                if gap.astray:
                    what = "its frames do not follow each other"
                    self.faults.append(Fault(now, now + frame.samples, what, shifts=True))
                overlaps = bool(gap.packets) and not self._checked  # with what was dropped
                if overlaps or (not hole and (gap.said or frame.is_corrupt)):
                    what = gap.words or "a corrupt frame"
                    self.faults.append(Fault(now, now + frame.samples, what))
                if frame.pts is not None:
                    self._timed = self._at + held.samples + frame.samples
                frame.pts = None  # or a gap between two frames would be an error
                try:
                    held.write(frame)
                except ValueError:  # another sample format
                    yield from self._counted(rest(held, kind[1]), like_first)
                    held = av.AudioFifo()
                    held.write(frame)
                while held.samples >= frames:
                    yield from self._counted([grid(held.read(frames), kind[1])], like_first)
                frame, gap = next(self._frames)
        except av.FFmpegError:
            yield from self._counted(rest(held, kind[1]), like_first)
            raise
        yield from self._counted(rest(held, kind[1]), like_first)
        if like_first is not None:
            yield from self._counted(like_first.rest(), None)
        if self._name in _LOOSE_END:
            return
        if gap.packets and self._first is not None and not self._checked:
            # The index of an MP4 knows the length of what cannot be read, too.
            promised = self.header.frames or 0 if self._name == "mov" else 0
            hole = holes.guess(self._name, gap, self._frame, self._usual)
            yield from self._filled(max(hole, promised - self._at), frames, gap, guess=False)
        elif gap.said:
            self.faults.append(Fault(self._at, self._at, gap.words))

    def _counted(self, blocks: Any, like_first: LikeFirst | None) -> Iterator[Samples]:
        for block in blocks:
            for ready in [block] if like_first is None else like_first.push(block):
                self._at += len(ready)
                yield ready

    def _hole(self, frame: Any, expected: float | None) -> tuple[int | None, float | None]:
        """(samples missing before a frame, time after it in samples). None: times tell nothing."""
        if self._changed:
            return None, None
        late, after = holes.late(self._name, frame, expected, self._complained)
        if frame.pts is not None:
            self._complained = False
        if late is not None and late < 0:
            self.faults.append(Fault(self._at, self._at, "its times go back", shifts=True))
        return None if late is None else max(late, 0), after

    def _filled(self, hole: int, frames: int, gap: Gap, guess: bool) -> Iterator[Samples]:
        """Silence in the place of what is missing, so that all after it keeps its time.

        A guess is right where the packets are whole frames, and to a frame where it brings an MP3
        to the length in its header, which `_settle` sees.
        """
        self._guessed = self._guessed or guess
        whole = gap.frames == gap.packets and self._astray_after is None
        shifts = guess and not whole
        seconds = hole / self.header.rate
        what = "; ".join([*([gap.words] if gap.words else []), f"{seconds:.3f} s missing"])
        self._filled_seconds += seconds
        if self._filled_seconds > MOST_FILLED:
            self._filled_seconds -= seconds
            self.faults.append(Fault(self._at, self._at, what, shifts=True))
            return
        # FFmpeg notices a hole in such a file only at the end of the page that follows it.
        late = max(hole, _PAGE * self.header.rate) if self.header.format == "ogg/flac" else 0
        start = max(min(self._timed, self._at - round(late)), 0)
        self.faults.append(Fault(start, self._at + hole, what, shifts))
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


def _aside(file: BinaryIO, read: Callable[[BinaryIO], bool]) -> bool:
    """What `read` finds, behind FFmpeg's back."""
    at = file.tell()
    try:
        return read(file)
    finally:
        file.seek(at)


def _refuse(url: str, flags: int, options: dict[str, str]) -> Any:
    raise PermissionError(f"a recording may not open other files: {url}")


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
