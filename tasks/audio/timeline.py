"""The position of a stream that FFmpeg decodes, and the faults in it.

What is missing is filled with silence, so that everything after it keeps its time.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import av

from tasks.audio.packets import Gap
from tasks.audio.types import Header
from tasks.recording.faults import Fault, merged

#: Containers with exact timestamps, and how much those are rounded, in s. A frame that is later
#: than the samples before it account for follows a hole. Other containers only estimate times.
_ROUNDING = {
    "ogg": 0.0025,
    "flac": 0.0025,
    "matroska": 0.010,
    "wv": 0.0025,
    "tta": 0.0025,
    "mpegts": 0.010,
    "asf": 0.1,
    "nut": 0.010,
}
#: Containers whose timestamps may come from a recorder's clock, and jitter by up to half a frame.
#: Those that are not above count only where FFmpeg reported an error, to say how much is missing.
_CLOCKED = {"mov", "flv", "asf"}
#: In these, a time that goes back, or ahead by more than _SPLICE, is a splice, as in `ffmpeg`
#: (-dts_delta_threshold).
_SPLICED, _SPLICE = {"mpegts", "asf"}, 10.0  # s
#: Most silence filled in, of one recording, s: damaged timestamps could ask for years.
MOST_FILLED = 3600.0
MOST_PAUSED = 86_400.0  # s of one recording in which a sender may send nothing
_PAGE = 1.5  # s; FFmpeg ends a page of FLAC after one
_MARGIN = 0.1  # s by which the time of a cluster may differ from that of its samples
#: Faults closer than this are one, s: between them a decoder without checksums invents sound.
_NEAR = 0.5


@dataclass(slots=True)
class Timeline:
    """Counts in samples at the header's rate. `position`: samples delivered so far, silence
    included."""

    name: str  # of the container
    tick: tuple[int, int]  # unit of its times, a fraction of a second
    header: Header
    checked: bool  # every frame has a checksum
    whole_frames: bool  # no break in the frames of an ADTS stream
    complained: bool  # FFmpeg reported an error since the last frame whose time is known
    faults: list[Fault] = field(default_factory=list)
    position: int = 0
    expected: float | None = None  # time of the next frame; None: not known
    timed: int = 0  # samples whose time is known
    longest: int = 0  # samples of the longest frame
    filled: float = 0.0  # s of silence so far
    paused: float = 0.0  # s of pauses so far
    changed: bool = False  # a part has another rate or other channels
    guessed: bool = False  # the length of a hole was estimated
    rejected: bool = False  # the decoder rejected packets

    def missing_before(self, frame: av.AudioFrame) -> int | None:
        """Samples missing before a frame by its timestamp, at least 0; None: it tells nothing."""
        expected, self.expected = self.expected, None
        if self.changed or (self.name not in _CLOCKED and self.name not in _ROUNDING):
            return None
        if frame.pts is None:  # after damage; the next frame has a time
            self.expected = None if expected is None else expected + frame.samples
            return 0
        complained, self.complained = self.complained, False
        pts = frame.pts
        if self.header.format == "ogg/vorbis":
            # FFmpeg takes a short block after a long one for shorter than it is, and puts it too
            # late; where it ends is right. Here a tick is a sample.
            pts -= max(frame.samples - frame.duration, 0)
        now = pts * self.tick[0] * frame.sample_rate / self.tick[1]  # rounded once
        self.expected = now + frame.samples
        # A FLAC frame holds its number; that is a time only if the header states the right frame
        # size.
        sure = complained or (self.name in _ROUNDING and self.name != "flac")
        ahead = 0.0 if expected is None or not sure else now - expected
        if self.name in _SPLICED and not complained and not 0 < ahead < _SPLICE * frame.sample_rate:
            ahead = 0.0
        slack = max(_ROUNDING.get(self.name, 0.0) * frame.sample_rate, 2.0)
        if complained and self.name in _CLOCKED:
            slack = frame.samples / 2
        if ahead < -slack:
            what = "its timestamps go backwards"
            self.faults.append(Fault(self.position, self.position, what, shifts=True))
        return round(ahead) if ahead > slack else 0

    def add(self, frame: av.AudioFrame, gap: Gap, now: int, filled: bool) -> None:
        """Note a frame that starts at sample `now`, and the faults in it; `filled`: a hole before
        it was filled."""
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
        """Samples of silence to deliver for a hole, which `position` then includes; 0 where
        MOST_FILLED is used up.

        A guess is right where the rejected packets are whole frames. In an MP3 it is right to a
        frame where it brings the recording to the length in its header, as `check_length` sees.
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
            # FFmpeg notices a hole only at the end of the page that follows it.
            delay = max(hole, _PAGE * self.header.rate)
        elif self.header.format == "ogg/vorbis":
            # It puts the first frame after a hole, half of which overlaps with nothing, before it.
            delay = self.longest
        start = max(min(self.timed, self.position - round(delay)), 0)
        self.faults.append(Fault(start, self.position + hole, what, shifts))
        self.position += hole
        return hole

    def pause(self, hole: int) -> int:
        """Samples of silence to deliver for what a sender left out on purpose, which `position`
        then includes; a fault and 0 where MOST_PAUSED is used up."""
        self.paused += hole / self.header.rate
        if self.paused > MOST_PAUSED:
            return self.fill(hole, Gap(), guess=False)
        self.position += hole
        return hole

    def add_clusters(self, spans: list[tuple[float, float | None]]) -> None:
        """Add the faults of Matroska clusters (start, end) in s, when all is decoded."""
        rate = self.header.rate
        for start, end in spans:
            first = max(round((start - _MARGIN) * rate), 0)
            last = self.position if end is None else round((end + _MARGIN) * rate)
            span = min(first, self.position), min(last, self.position)
            self.faults.append(Fault(*span, "the checksum of a cluster is wrong"))

    def check_length(self, promised: int | None) -> None:
        """Revise the faults when all is decoded; `promised`: the length in samples by a header
        that counts frames."""
        # FFmpeg cuts off less padding, or more, where packets are missing.
        right = promised is not None and abs(self.position - promised) < self.longest
        if self.guessed and right:
            self.faults[:] = [replace(fault, shifts=False) for fault in self.faults]
        self.faults[:] = merged(self.faults, round(_NEAR * self.header.rate))
