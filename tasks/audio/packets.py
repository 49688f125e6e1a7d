"""Decodes the packets of one audio stream: the frames, and what went wrong between them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace

import av
from av.audio.stream import AudioStream
from av.container import InputContainer
from av.packet import Packet

from ..base.errors import ItemError
from ..recording.faults import Fault, merged
from .damage.edges import TAGS, adts_bytes
from .damage.mp3 import frame_bytes
from .types import AGAIN, Header

#: FFmpeg's own WavPack encoder writes a wrong checksum of 32-bit samples, and its decoder reports
#: it.
EXTRA_BITS = "Extra bits CRC error"
#: In these containers, bytes before the first frame and after the last one are more often padding,
#: tags or a web page than audio.
LOOSE_END = {"mp3"}
#: Streams of bare frames: FFmpeg takes all bytes up to the next header for one packet.
_BARE = {"mp3", "ac3", "eac3"}
#: Length of a frame in bytes by its own header, for containers of bare frames.
_FRAME_BYTES = {"mp3": frame_bytes, "aac": adts_bytes}
#: Codecs whose packets never hold this many zero bytes before their end: FFmpeg decodes zeros in
#: place of data to other sound, mostly without complaint. Silence takes a few bits a frame.
_WITHOUT_ZEROS, _ZEROS = {"wmav1", "wmav2"}, bytes(32)
#: FFmpeg's number for an unknown time (AV_NOPTS_VALUE), as its messages print it.
_NO_TIME = re.compile(r"(?: at)?(?: [PD]TS)?[ =:]*-9223372036854775808\b", re.IGNORECASE)
MOST_SAID = 100  # messages kept between two frames
#: Most packets rejected in a row, half an hour of AMR: each costs 10 µs, even if it is one byte
#: long.
MOST_REJECTED = 100_000
#: Packets per batch, and their bytes: at most a second of speech.
_BATCH, _BATCH_BYTES = 32, 1 << 16


@dataclass(slots=True)
class Gap:
    """What happened before a frame: FFmpeg's messages, and the packets that it rejected."""

    messages: list[str] = field(default_factory=list)
    packets: int = 0
    size: int = 0  # bytes in those packets
    frames: int = 0  # packets among them whose length matches their frame's header
    astray: bool = False  # the frames of an ADTS stream do not follow each other

    def keep(self, messages: Sequence[str]) -> None:
        """Keep only the first messages: there may be millions of packets."""
        if len(self.messages) < MOST_SAID:
            self.messages += messages[: MOST_SAID - len(self.messages)]

    @property
    def words(self) -> str:
        return "; ".join([*dict.fromkeys(self.messages)][:3])

    @property
    def nothing(self) -> bool:
        return not (self.messages or self.packets or self.astray)


#: A packet (None: the end), its frames, FFmpeg's refusal of it, and its messages.
Decoded = tuple[
    "Packet[AudioStream] | None", Sequence[av.AudioFrame], av.FFmpegError | None, list[str]
]


class Packets:
    """The packets of one stream of a container `name`. `break_after`: number of frames before an
    ADTS stream breaks, from `edges.first_break`."""

    def __init__(
        self, container: InputContainer, stream: AudioStream, name: str, break_after: int | None
    ) -> None:
        self._container, self._stream, self._name = container, stream, name
        self._break_after = break_after
        self._usual = 0  # bytes of the last decoded packet
        self.number = -1  # of the newest frame's packet
        self.before = 0  # bytes of the packet before the newest frame's

    def frames(self) -> Iterator[tuple[av.AudioFrame | None, Gap]]:
        """(frame, what happened since the previous one) in order; (None, …) at the end."""
        gap, done = Gap(), 0
        codec = self._stream.codec_context.name
        pcm, without_zeros = codec.startswith("pcm_"), codec in _WITHOUT_ZEROS
        for packet, frames, failed, messages in self._decoded():
            if messages:
                gap.keep(messages)
            if packet is None:
                break
            side_data = not packet.size and isinstance(failed, av.ArgumentError)
            if failed is not None and not side_data:
                self._reject(packet, failed, gap)
                if gap.packets >= MOST_REJECTED:
                    if not self._usual:
                        break
                    what = f"{gap.packets} packets in a row cannot be decoded: {gap.words}; {AGAIN}"
                    raise ItemError("decode_error", what)
            if packet.size:
                done += 1
                gap.astray = gap.astray or done == self._break_after
            if packet.is_corrupt and not pcm:  # in PCM this marks the end of the file
                gap.keep(["a corrupt packet"])
            if without_zeros and _ZEROS in bytes(packet).rstrip(b"\0"):
                gap.keep(["zeros in place of its data"])
            if frames:
                self.before, self.number = self._usual, done - bool(packet.size)
            for frame in frames:
                self._usual = packet.size or self._usual
                yield frame, gap
                if not gap.nothing:
                    gap = Gap()
        yield None, gap

    def _decoded(self) -> Iterator[Decoded]:
        """All packets in order, decoded; the end as one without a packet.

        The first is decoded alone, because readers of a header need no more; then in batches:
        catching FFmpeg's messages costs a fifth of decoding a short packet.
        """
        packets = self._container.demux(self._stream)
        ended, most = False, 1
        while not ended:
            batch: list[Decoded] = []
            size = 0
            with captured() as messages:
                while not ended and len(batch) < most and size < _BATCH_BYTES:
                    try:
                        packet = next(packets, None)
                    except IndexError:  # PyAV: a packet of a stream that began after the header
                        packets = self._container.demux(self._stream)
                        continue
                    frames: Sequence[av.AudioFrame] = ()
                    failed: av.FFmpegError | None = None
                    if packet is None:
                        ended = True
                    else:
                        size += packet.size
                        try:
                            frames = packet.decode()
                        except MemoryError:  # PyAV's is an FFmpegError as well
                            raise
                        except av.FFmpegError as error:
                            failed = error
                    batch.append((packet, frames, failed, in_words(messages)))
                    messages.clear()
            yield from batch
            most = min(2 * most, _BATCH)

    def _reject(self, packet: Packet[AudioStream], error: av.FFmpegError, gap: Gap) -> None:
        data = bytes(packet)
        if self._name in LOOSE_END and data.startswith(TAGS):
            gap.messages.clear()  # a tag inside joined files
        elif EXTRA_BITS in str(error):
            raise error
        else:
            gap.messages = gap.messages or [error.strerror or str(error)]
            gap.packets += 1
            gap.size += packet.size
            length = _FRAME_BYTES.get(self._name)
            gap.frames += length is not None and length(data) == packet.size

    def rejected_samples(self, gap: Gap, samples: int) -> int:
        """Samples in the rejected packets of a gap, estimated when there are no times: from their
        number, or from their size relative to the usual one. A frame has `samples`."""
        lost = gap.packets
        if self._name in _BARE and self._usual and gap.frames < gap.packets:
            lost = max(round(gap.size / self._usual), 1)
        return lost * samples


@contextmanager
def captured() -> Iterator[list[tuple[int, str, str]]]:
    """FFmpeg's error messages, as they arrive."""
    av.logging.set_level(av.logging.ERROR)
    av.logging.set_skip_repeated(False)
    try:
        with av.logging.Capture() as messages:
            yield messages
    finally:
        av.logging.set_level(None)


def in_words(messages: list[tuple[int, str, str]]) -> list[str]:
    """FFmpeg's messages in its own words, without times that it does not know."""
    return [
        f"{name}: {' '.join(_NO_TIME.sub('', words).split())}"[:100] for _, name, words in messages
    ]


# The position of a stream that FFmpeg decodes, and the faults in it.
#
# Missing audio is filled with silence, so that everything after it keeps its time.

#: Containers with exact timestamps, and how coarsely they are rounded, in s. A frame later than the
#: preceding samples account for follows a hole. Other containers only estimate times.
_ROUNDING = {
    "ogg": 0.0025,
    "flac": 0.0025,
    "matroska": 0.010,
    "wv": 0.0025,
    "tta": 0.0025,
    "mpegts": 0.010,
    "asf": 0.1,
    "nut": 0.010,
    "mpeg": 0.050,
    "wtv": 0.050,
}
#: Containers whose timestamps may come from a recorder's clock, and jitter by up to half a frame.
#: Unless listed above, they count once they run ahead by _HOLE; where FFmpeg reported an error, at
#: once.
_CLOCKED = {"mov", "flv", "asf"}
_HOLE = 0.1  # s
#: How fast a recorder's clock may run: what it gains is no hole.
_DRIFT = 0.0025
#: In these, a time that jumps back, or ahead by more than _SPLICE, is a splice, as in `ffmpeg`
#: (-dts_delta_threshold), which allows 10 s; a receiver may lose more.
_SPLICED, _SPLICE = {"mpegts", "asf", "mpeg", "wtv", "flv"}, 600.0  # s
#: Most silence filled into one recording, s: damaged timestamps could ask for years.
MOST_FILLED = 3600.0
MOST_PAUSED = 86_400.0  # most s of pauses in one recording
_PAGE = 1.5  # s; FFmpeg ends a page of FLAC after 1 s
_MARGIN = 0.1  # s by which a cluster's time may differ from its samples'
#: Faults closer than this are one, s: between them a decoder without checksums produces garbage.
_NEAR = 0.5


@dataclass(slots=True)
class Timeline:
    """All counts in samples at the header's rate. `position`: samples delivered so far, including
    silence."""

    name: str  # of the container
    tick: tuple[int, int]  # unit of its times, a fraction of a second
    header: Header
    checked: bool  # every frame has a checksum
    whole_frames: bool  # no break in the frames of an ADTS stream
    complained: bool  # FFmpeg reported an error since the last frame with a known time
    faults: list[Fault] = field(default_factory=list)
    position: int = 0
    expected: float | None = None  # time of the next frame; None: unknown
    timed: int = 0  # samples whose time is known
    longest: int = 0  # samples of the longest frame
    filled: float = 0.0  # s of silence so far
    paused: float = 0.0  # s of pauses so far
    changed: bool = False  # a part has another rate or other channels
    guessed: bool = False  # the length of a hole was estimated
    rejected: bool = False  # the decoder rejected packets
    late: float = 0.0  # samples by which a recorder's times run ahead

    def missing_before(self, frame: av.AudioFrame) -> int | None:
        """Samples missing before a frame by its timestamp, at least 0; None if it has no
        meaning."""
        expected, self.expected = self.expected, None
        if self.changed or (self.name not in _CLOCKED and self.name not in _ROUNDING):
            return None
        if frame.pts is None:  # after damage; the next frame has a time
            self.expected = None if expected is None else expected + frame.samples
            return 0
        complained, self.complained = self.complained, False
        pts = frame.pts
        if self.header.format == "ogg/vorbis":
            # FFmpeg assumes a short block after a long one to be shorter than it is, and places it
            # too late; its end is right. Here a tick is a sample.
            pts -= max(frame.samples - frame.duration, 0)
        now = pts * self.tick[0] * frame.sample_rate / self.tick[1]  # rounded once
        self.expected = now + frame.samples
        # A FLAC frame holds its number; that gives a time only if the header states the right frame
        # size.
        sure = complained or self.name != "flac"
        ahead = 0.0 if expected is None or not sure else now - expected
        if self.name in _CLOCKED and self.name not in _ROUNDING and not complained:
            ahead = self._lost_packets(ahead, frame)
        if self.name in _SPLICED and not complained and not 0 < ahead < _SPLICE * frame.sample_rate:
            ahead = 0.0
        slack = max(_ROUNDING.get(self.name, 0.0) * frame.sample_rate, 2.0)
        if complained and self.name in _CLOCKED:
            slack = frame.samples / 2
        if ahead < -slack:
            what = "its timestamps go backwards"
            self.faults.append(Fault(self.position, self.position, what, shifts=True))
        return round(ahead) if ahead > slack else 0

    def _lost_packets(self, ahead: float, frame: av.AudioFrame) -> float:
        """Samples to fill before a frame that is `ahead` of the one before by a recorder's clock:
        0 until lost packets add up to a hole."""
        hole, drift = _HOLE * frame.sample_rate, _DRIFT * frame.samples
        late = max(self.late + ahead, -hole)
        self.late = late - min(max(late, -drift), drift)
        if self.late < hole:
            return 0.0
        self.late = 0.0
        return late

    def add(self, frame: av.AudioFrame, gap: Gap, now: int, filled: bool) -> None:
        """Record a frame that starts at sample `now`, and its faults; `filled`: a hole before it
        was filled."""
        end = now + frame.samples
        self.rejected = self.rejected or bool(gap.packets)
        if gap.astray:
            what = "its frames do not follow each other"
            self.faults.append(Fault(now, end, what, shifts=True))
        overlaps = bool(gap.packets) and not self.checked  # with the rejected packets
        if overlaps or (not filled and (gap.messages or frame.is_corrupt)):
            self.faults.append(Fault(now, end, gap.words or "a corrupt frame"))
        if frame.pts is not None:
            self.timed = end

    def fill(self, hole: int, gap: Gap, guess: bool) -> int:
        """Samples of silence to deliver for a hole, which `position` then includes; 0 once
        MOST_FILLED is used up.

        A guess is right if the rejected packets are whole frames. In an MP3 it is right to a frame
        if it brings the recording to the length in its header; see `check_length`.
        """
        self.guessed = self.guessed or guess
        shifts = guess and not (gap.frames == gap.packets and self.whole_frames)
        seconds = hole / self.header.rate
        what = "; ".join([*([gap.words] if gap.words else []), f"{seconds:.3f} s missing"])
        if self.filled + seconds > MOST_FILLED:
            self.faults.append(Fault(self.position, self.position, what, shifts=True))
            return 0
        self.filled += seconds
        delay = 0.0
        if self.header.format == "ogg/flac":
            # FFmpeg notices a hole only at the end of the next page.
            delay = max(hole, _PAGE * self.header.rate)
        elif self.header.format == "ogg/vorbis":
            # FFmpeg places the first frame after a hole, half of which overlaps with nothing,
            # before it.
            delay = self.longest
        start = max(min(self.timed, self.position - round(delay)), 0)
        self.faults.append(Fault(start, self.position + hole, what, shifts))
        self.position += hole
        return hole

    def pause(self, hole: int) -> int:
        """Samples of silence to deliver for a sender's pause, which `position` then includes; a
        fault and 0 once MOST_PAUSED is used up."""
        self.paused += hole / self.header.rate
        if self.paused > MOST_PAUSED:
            return self.fill(hole, Gap(), guess=False)
        self.position += hole
        return hole

    def add_clusters(self, spans: list[tuple[float, float | None]]) -> None:
        """Add the faults of Matroska clusters (start, end) in s, once all is decoded."""
        rate = self.header.rate
        for start, end in spans:
            first = max(round((start - _MARGIN) * rate), 0)
            last = self.position if end is None else round((end + _MARGIN) * rate)
            span = min(first, self.position), min(last, self.position)
            self.faults.append(Fault(*span, "the checksum of a cluster is wrong"))

    def check_length(self, promised: int | None) -> None:
        """Revise the faults once all is decoded. `promised`: the length in samples by a header that
        counts frames."""
        # FFmpeg trims less padding, or more, if packets are missing.
        right = promised is not None and abs(self.position - promised) < self.longest
        if self.guessed and right:
            self.faults[:] = [replace(fault, shifts=False) for fault in self.faults]
        self.faults[:] = merged(self.faults, round(_NEAR * self.header.rate))
