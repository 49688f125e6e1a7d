"""Decoding with FFmpeg (PyAV): samples in blocks, holes filled with silence, and the faults.

FFmpeg never gets a path or a name, and cannot open other files: it judges by content alone.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from fractions import Fraction
from typing import BinaryIO, NoReturn, cast

import av
import numpy as np
from av.audio.codeccontext import AudioCodecContext
from av.audio.layout import AudioLayout
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet
from av.stream import Disposition, Stream

from ..base.errors import ItemError
from ..recording.container import undisturbed
from ..recording.faults import Fault
from ..recording.tracks import NOT_READ, SUBTITLES
from . import channels
from .damage import containers, edges
from .damage.mp3 import has_frame_count
from .damage.ogg_pages import NO_LEAPS, PAUSE_BYTES
from .damage.promise import told_end
from .flac import DROP_WRONG, STREAMINFO, Md5, flac_info, info_in
from .frames import Assembler, grid
from .packets import LOOSE_END, Gap, Packets, Timeline, captured, in_words
from .types import AGAIN, FRAMES_PER_BYTE, Decoder, Header, Nameless, Samples, Weights, energy

#: Demuxers that read one file of audio (or video). No playlist, script, image or device.
_FORMATS = (
    "aac,ac3,aiff,amr,amrnb,amrwb,ape,asf,au,avi,caf,dts,dtshd,eac3,flac,flv,g722,gsm,matroska,mov,"
    "mp3,mp4,mpc,mpc8,mpeg,mpegts,mxf,nistsphere,nut,ogg,oma,qcp,rm,tak,truehd,tta,voc,w64,wav,wtv,wv,"
    "xwma"
)
_OPTIONS = {
    "format_whitelist": _FORMATS,
    "protocol_whitelist": "none",
    "probesize": "5000000",  # bytes
    "analyzeduration": "5000000",  # microseconds
}
#: Codecs in which every frame has a checksum; FFmpeg drops the frames whose checksum is wrong.
CHECKED = {"flac", "wavpack", "tta"}
#: In other codecs FFmpeg reports a fault and continues. It checks the checksums of AC-3, E-AC-3 and
#: those MPEG frames that have one, and the number of bits in each frame.
_REPORT_WRONG = "crccheck+bitstream+buffer"

#: A container may overstate its length by this much, s.
_LATE = {"asf": 1.0, "nut": 0.1}
#: Containers that give times to several streams: the audio of a film may begin after its picture.
_WITH_TIMES = {
    *("mov", "matroska", "mpegts", "mpeg", "flv", "avi", "asf", "nut", "ogg", "wtv", "mxf"),
}
#: Of these, time 0 is that of the container; it begins later only where it was cut from a live
#: stream. Players count others from their earliest stream.
_FROM_ZERO, _OWN_CLOCK = {"mov", "matroska"}, 60.0  # s
_SHIFTED, _NOTED = 0.0015, 0.5  # s from which a start is one, and is noted
_PICTURES = {"pgssub", "dvdsub", "dvbsub", "xsub"}  # subtitles without text
_SILENT = 1e-6  # power, -60 dBFS: after a quieter frame a sender may pause
_GSM_FRAME, _GSM_LEAST, _GSM_LOOKED = 33, 4, 64  # bytes; fewest and most frames looked at
_FLAC_FRAME = 4608  # most samples of a frame in the streamable subset; nearly all use it

# FFmpeg's messages become faults, or are irrelevant.
logging.getLogger("libav").addHandler(logging.NullHandler())
logging.getLogger("libav").propagate = False


Frames = Iterator[tuple[av.AudioFrame | None, Gap]]


class FFmpeg(Decoder):
    """Decoder of one audio stream, single-threaded; `notes` name the others.

    A packet that FFmpeg rejects is skipped, as by the program `ffmpeg`, and is a fault. Rate and
    channels are those of the first frame; a later part with others is resampled and mixed, as in a
    player.
    """

    def __init__(
        self,
        file: BinaryIO,
        size: int,
        check: bool = True,
        leaps: Mapping[int, int] = NO_LEAPS,
        track: int | None = None,
        kind: str | None = None,
    ) -> None:
        self._leaps = leaps
        self._info = flac_info(file)
        self._wrong_clusters = containers.damaged_spans(file, size)
        break_after = edges.first_break(file, size)
        self._container = open_container(file, kind)
        try:
            if track is None and len(self._container.streams.audio) > 1:
                track = _chosen(file)
            self.notes = tracks_not_read(self._container, track or 0)
            stream = audio_stream(self._container, check, track or 0)
            custom = _number_channels(stream.codec_context)
            self._checked = stream.codec_context.name in CHECKED
            self._name = self._container.format.name.split(",")[0]
            self._joined = self._name == "mov" and containers.is_joined(file, size)
            self._counts_frames = self._name == "mp3" and has_frame_count(file)
            self._packets = Packets(self._container, stream, self._name, break_after)
            self._frames = self._packets.frames()
            if self._name == "mov" and (empty := containers.empty_edits(file, size, track or 0)):
                self._frames = _outside(self._frames, empty)
            self._first, gap = next(self._frames)
            if self._first is None and gap.packets:
                what = f"none of its packets can be decoded: {gap.words}; {AGAIN}"
                raise ItemError("unreadable", what)
            if not gap.packets and not self._checked:
                gap.messages.clear()  # messages about the header, not about samples
            header = header_of(self._name, stream, self._first, size, custom)
            count, start = len(self._container.streams.audio), self._start()
            self.header = replace(header, track=track or 0, tracks=count, start=start)
            self.notes += _notes_of_film(self._container, start)
            # With a picture, the stated length is that of the longer of both.
            alone = len(self._container.streams) == 1
            self._unended = self._name == "nut" and told_end(file, size, "nut") is None
            self._stated = self._stated_frames() if alone and not self._unended else None
        except BaseException:
            self._container.close()
            raise
        self._before = gap
        early = bool(gap.messages or gap.packets)
        tick = stream.time_base or Fraction(1, self.header.rate)
        self._timeline = Timeline(
            self._name,
            (tick.numerator, tick.denominator),
            self.header,
            self._checked,
            whole_frames=break_after is None,
            complained=early,
            expected=0.0 if early else None,  # the first frame did not decode
        )
        self.faults: list[Fault] = self._timeline.faults

    def _start(self) -> float:
        """When the first sample is heard, s, by a player's clock."""
        if self._first is None or self._first.time is None or self._name not in _WITH_TIMES:
            return 0.0
        begun = (self._container.start_time or 0) / av.time_base  # of its earliest stream
        zero = 0.0 if self._name in _FROM_ZERO and begun < _OWN_CLOCK else begun
        start = round(self._first.time - zero, 6)
        return start if abs(start) > _SHIFTED else 0.0

    def _stated_frames(self) -> int | None:
        """The length in samples by the header of an ASF, or by the index of a NUT, which holds the
        start of its last packet."""
        duration = self._container.duration
        if self._name == "nut" and duration is not None and self._first is not None:
            first = self._first.time or 0.0
            return round((duration / av.time_base - first) * self.header.rate)
        return self.header.frames if self._name == "asf" else None

    @property
    def one_place(self) -> bool:
        """Whether packets were rejected, all close together; valid once all is decoded."""
        return not self._checked and self._timeline.rejected and len(self.faults) == 1

    def read(self, frames: int) -> Iterator[Samples]:
        """Blocks of exactly `frames`; shorter ones at the end and before a change or a hole."""
        md5 = Md5(self._info) if self._info else None
        decoded = 0
        for block in self._blocks(frames):
            decoded += len(block)
            if md5 is not None:
                md5.add(block)
            yield block
        timeline = self._timeline
        timeline.add_clusters(self._wrong_clusters)
        if not self._checked:
            timeline.check_length(self.header.frames if self._counts_frames else None)
        if md5 is None or timeline.changed or not md5.exact:
            return
        if not md5.differs():  # the samples are right, whatever FFmpeg reported
            self.faults.clear()
            return
        promised = self._info.frames if self._info and self._info.frames else decoded
        if decoded < promised - _FLAC_FRAME or (decoded < promised and not self.faults):
            code = "decode_error" if self.faults else "truncated"
            what = f"its header promises {promised} samples, but it has {decoded}"
            raise ItemError(code, f"{what}; {AGAIN}")
        if decoded < promised:  # the last frame is damaged
            self.faults.append(Fault(decoded, promised, "its last frame is missing"))
            yield from self._silence(promised - decoded, frames)
        elif not self.faults:
            self.faults.append(Fault(0, decoded, "its MD5 does not match its samples", shifts=True))

    def _blocks(self, frames: int) -> Iterator[Samples]:
        timeline = self._timeline
        assembler = Assembler(self.header.rate, self.header.channels, frames)
        frame, gap = self._first, self._before
        last: av.AudioFrame | None = None
        if self._name in LOOSE_END or not gap.packets:
            gap = Gap(astray=gap.astray)
        try:
            while frame is not None:
                if assembler.differs(frame):
                    yield from self._counted(assembler.change(frame))
                    timeline.changed = True
                timeline.longest = max(timeline.longest, frame.samples)
                timeline.complained = timeline.complained or bool(gap.messages)
                hole = timeline.missing_before(frame)
                if self._leaps:  # FFmpeg places them at another packet of this page or the next
                    hole = self._leaps.get(self._packets.number, 0)
                guess = hole is None and bool(gap.packets)
                if guess:
                    hole = self._packets.rejected_samples(gap, frame.samples)
                if hole:
                    yield from self._counted(assembler.flush())
                    if gap.nothing and self._paused(last):
                        yield from self._silence(timeline.pause(hole), frames)
                    else:
                        yield from self._silence(timeline.fill(hole, gap, guess), frames)
                timeline.add(frame, gap, timeline.position + assembler.samples, filled=bool(hole))
                last = frame
                if full := assembler.push(frame):
                    yield from self._counted(full)
                frame, gap = next(self._frames)
        except (av.FFmpegError, ItemError):
            yield from self._counted(assembler.flush())
            raise
        yield from self._counted(assembler.finish())
        if self._name in LOOSE_END:
            return
        end = timeline.position
        if gap.packets and self._first is not None and not self._checked:
            # The index of an MP4 counts packets that cannot be decoded, too.
            promised = (self.header.frames or 0) if self._name == "mov" else 0
            lost = self._packets.rejected_samples(gap, timeline.longest)
            hole = max(lost, promised - end)
            yield from self._silence(timeline.fill(hole, gap, guess=False), frames)
        elif gap.messages:
            self.faults.append(Fault(end, end, gap.words))
        elif self._joined:
            what = "another MP4 follows in it, which is not read; split the file"
            self.faults.append(Fault(end, end, what))
        elif self._unended:
            self.faults.append(Fault(end, end, "its index is missing: it is cut short"))
        elif self._stated and self._stated - end > _LATE[self._name] * self.header.rate:
            short = (self._stated - end) / self.header.rate
            self.faults.append(Fault(end, end, f"{short:.1f} s missing at its end"))

    def _paused(self, last: av.AudioFrame | None) -> bool:
        """Whether Opus packets are missing because the sender of a call paused, and not because
        they were lost: before a pause it sends almost nothing (DTX), or silence."""
        if last is None or not self.header.format.endswith("opus"):
            return False
        if self._packets.before <= PAUSE_BYTES:
            return True
        samples = grid(last, last.layout.nb_channels)
        return energy(samples) < _SILENT * samples.size

    def _counted(self, blocks: Iterable[Samples]) -> Iterator[Samples]:
        for block in blocks:
            self._timeline.position += len(block)
            yield block

    def _silence(self, count: int, frames: int) -> Iterator[Samples]:
        for start in range(0, count, frames):
            yield np.zeros((min(frames, count - start), self.header.channels), np.float32)

    def close(self) -> None:
        self._container.close()


def _notes_of_film(container: InputContainer, start: float) -> Iterator[str]:
    """Notes on a late start of the sound, and on subtitles."""
    if abs(start) >= _NOTED:
        side = "after" if start > 0 else "before"
        yield f"its audio begins {abs(start):.3f} s {side} its time 0"
    for number, subtitles in enumerate(container.streams.subtitles):
        if subtitles.codec_context.name not in _PICTURES:
            yield (
                f"{SUBTITLES}{_words(subtitles)}, which are not read; put them beside it: "
                f"ffmpeg -i FILE -map 0:s:{number} FILE.srt"
            )


def _outside(frames: Frames, empty: Sequence[containers.Span]) -> Frames:
    """The frames, without those in empty edits."""
    for frame, gap in frames:
        middle = -1.0
        if frame is not None and frame.time is not None:
            middle = frame.time + frame.samples / frame.sample_rate / 2
        if not any(start <= middle < end for start, end in empty):
            yield frame, gap


# --- opening ---


@undisturbed
def weights_in(file: BinaryIO) -> Weights | None:
    """Weights of the channels of an uncompressed file, from its header, in the file's order; None:
    the plain mean."""
    file.seek(0)
    try:
        with open_container(file) as container:
            context = audio_stream(container, check=False).codec_context
            custom = _number_channels(context)
            return channels.weights_at(custom) or channels.weights_of(context.layout)
    except (av.FFmpegError, ValueError, ItemError):
        return None


def open_container(file: BinaryIO, kind: str | None = None) -> InputContainer:
    """The container in a file object. `kind`: FFmpeg's name of its format; None: by its content.
    ValueError with FFmpeg's messages if it cannot be opened; av.FFmpegError if there are none."""
    kind = kind or ("gsm" if is_gsm(file) else None)
    with captured() as messages:
        try:
            return av.open(Nameless(file), "r", kind, container_options=_OPTIONS, io_open=_refuse)
        except av.FFmpegError as error:
            if not messages:
                raise
            distinct = dict.fromkeys(words.rstrip(".") for words in in_words(messages))
            raise ValueError("; ".join([*distinct][:3])) from error


@undisturbed
def is_gsm(file: BinaryIO) -> bool:
    """Whether a file is raw GSM 06.10: no header, and frames of 33 bytes whose first four bits are
    1101. FFmpeg recognises it from 32 frames on, 0.64 s, and takes shorter ones for other formats
    by chance."""
    file.seek(0)
    first = file.read(_GSM_FRAME * _GSM_LOOKED)
    begins = first[: len(first) // _GSM_FRAME * _GSM_FRAME : _GSM_FRAME]
    return len(begins) >= _GSM_LEAST and all(byte >> 4 == 0b1101 for byte in begins)


@undisturbed
def _chosen(file: BinaryIO) -> int:
    file.seek(0)
    with open_container(file) as container, captured():
        for stream in container.streams.audio:
            if (context := stream.codec_context) is not None:
                context.thread_count = 1
                _number_channels(context)
        return chosen_track(container)


def audio_stream(container: InputContainer, check: bool, track: int = 0) -> AudioStream:
    """An audio stream, set to one thread. ItemError `unreadable` if it is missing.

    `check`: whether codecs with a checksum in every frame drop frames with a wrong one.
    """
    if not container.streams.audio:
        raise ItemError("unreadable", "it has no audio stream; take it out of the source")
    count = len(container.streams.audio)
    if track >= count:
        what = f"it has no audio track {track}, but {count}, counted from 0"
        raise ItemError("unreadable", f"{what}; correct `track` of the source")
    stream = container.streams.audio[track]
    context: AudioCodecContext | None = stream.codec_context
    if context is None:  # FFmpeg has no decoder for this codec
        raise ItemError("unreadable", "no decoder here knows its codec; convert it to FLAC")
    context.thread_count = 1
    checked = context.name in CHECKED
    if check or not checked:
        context.options = {"err_detect": DROP_WRONG if checked else _REPORT_WRONG}
    return stream


def header_of(
    name: str,
    stream: AudioStream,
    first: av.AudioFrame | None,
    size: int,
    custom: tuple[str, ...] = (),
) -> Header:
    """The header of a file of `size` bytes in container `name`, from its first decoded frame.
    `custom`: positions of its channels if their order is unusual.

    The codec's own rate and channels are wrong for HE-AAC, among others; those of the first frame
    are right. ItemError `unreadable` if neither has any.
    """
    context = stream.codec_context
    layout = first.layout if first is not None else context.layout
    rate = first.sample_rate if first is not None else context.sample_rate
    if not (rate > 0 and layout.nb_channels > 0):
        raise ItemError("unreadable", f"no frame of it can be decoded; {AGAIN}")
    promised = None
    if first is not None and stream.duration is not None and stream.time_base is not None:
        frames = round(stream.duration * stream.time_base * first.sample_rate)
        promised = frames if 0 < frames <= size * FRAMES_PER_BYTE else None
    # Of a FLAC file its sample format, in libsndfile's words: `duplicate` prefers 24 bits to 16.
    info = info_in(STREAMINFO + bytes(context.extradata or b"")) if name == "flac" else None
    codec = context.name if info is None else info.kind
    in_order = len(custom) == layout.nb_channels
    weights = channels.weights_at(custom) if in_order else channels.weights_of(layout)
    form = f"{name}/{codec}".lower()
    return Header(rate, layout.nb_channels, promised, form, "av", weights)


def _number_channels(context: AudioCodecContext) -> tuple[str, ...]:
    """Replace an unusual channel order by plain numbers, and return it: PyAV frees the list of such
    an order once for each copy of it, which crashes the process."""
    layout = context.layout
    custom = channels.custom(layout.name)
    if custom:
        _KEPT.append(layout)
        context.layout = f"{layout.nb_channels} channels"
    return custom


_KEPT: list[AudioLayout] = []  # a few bytes each, kept because FFmpeg frees them itself


def _refuse(url: str, flags: int, options: dict[str, str]) -> NoReturn:
    raise PermissionError(f"a recording may not open other files: {url}")


# Chooses among several audio tracks: the one flagged as default, or the first, unless it is silent;
# then the next that is not.

SILENT = 1e-4  # -80 dBFS: a track without a louder sample is silent


def chosen_track(container: InputContainer) -> int:
    """Number of the track, from 0. Reads the container to its end if tracks are silent."""
    streams = container.streams.audio
    playable = [n for n, stream in enumerate(streams) if stream.codec_context is not None]
    order = sorted(playable, key=lambda n: not streams[n].disposition & Disposition.default)
    if not order:
        return 0
    track_at = {streams[track].index: track for track in order}
    heard: set[int] = set()
    # PyAV raises an IndexError at a stream that began after the header.
    with suppress(IndexError):
        for packet in container.demux(*(streams[track] for track in order)):
            track = track_at[packet.stream.index]
            if track not in heard and _sounds(packet):
                heard.add(track)
                if track == order[0]:
                    break
    return next((track for track in order if track in heard), order[0])


def _sounds(packet: Packet[Stream]) -> bool:
    try:
        frames = cast("Packet[AudioStream]", packet).decode()
    except av.FFmpegError:
        return False
    samples = (grid(frame, frame.layout.nb_channels) for frame in frames)
    return any(bool((np.abs(block) > SILENT).any()) for block in samples)


def tracks_not_read(container: InputContainer, track: int) -> list[str]:
    """A note for each other track, with its title and language."""
    return [
        f"{NOT_READ} {number}{_words(stream)} is not read; `track: {number}` of the source reads it"
        for number, stream in enumerate(container.streams.audio)
        if number != track
    ]


def _words(stream: Stream) -> str:
    texts = [stream.metadata.get(name, "")[:40] for name in ("title", "language")]
    named = [words for words in texts if words and words != "und"]
    return f" ({', '.join(named)})" if named else ""
