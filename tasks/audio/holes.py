"""How much is missing where FFmpeg made nothing of a packet, or never saw it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

#: Containers whose times are exact, and by how much they are rounded: a later time than the samples
#: before it account for is a hole. The times of others are estimates.
_ROUNDING = {
    "ogg": 0.0025, "flac": 0.0025, "matroska": 0.010, "wv": 0.0025, "tta": 0.0025, "mpegts": 0.010,
    "asf": 0.1,
}  # s  # fmt: skip
#: Containers whose times may be a recorder's clock, and jitter: by less than half a frame. Those
#: that are not above are asked only where FFmpeg complained, for how much is missing.
_CLOCKED = {"mov", "flv", "asf"}
#: In these, a time that jumps back or further is a splice, as in `ffmpeg`, whose
#: -dts_delta_threshold it is.
_SPLICED, _SPLICE = {"mpegts", "asf"}, 10.0  # s
#: Frames that follow each other with nothing around them: FFmpeg takes all bytes up to the next
#: header for one packet.
_BARE = {"mp3", "ac3", "eac3"}


@dataclass(slots=True)
class Gap:
    """What happened before a frame: what FFmpeg said, and the packets that it made nothing of."""

    said: list[str] = field(default_factory=list)
    packets: int = 0
    size: int = 0  # bytes of them
    frames: int = 0  # of them, those that are as long as the header of their own frame says
    astray: bool = False  # the frames of an ADTS stream do not follow each other

    @property
    def words(self) -> str:
        return "; ".join([*dict.fromkeys(self.said)][:3])


def late(
    name: str, frame: Any, expected: float | None, complained: bool
) -> tuple[int | None, float | None]:
    """(samples missing before a frame by its time, below 0 where it goes back; time after it in
    samples). None: times tell nothing. `name` is the container's, `expected` the time after the
    frame before, `complained` whether FFmpeg did since then."""
    if name not in _CLOCKED and name not in _ROUNDING:
        return None, None
    if frame.pts is None or frame.time_base is None:  # after damage; the next one knows
        return 0, None if expected is None else expected + frame.samples
    now = float(frame.pts * frame.time_base * frame.sample_rate)
    # A FLAC frame has its number, and its time only if the header is right about their size.
    sure = complained or (name in _ROUNDING and name != "flac")
    ahead = 0.0 if expected is None or not sure else now - expected
    if name in _SPLICED and not complained and not 0 < ahead < _SPLICE * frame.sample_rate:
        ahead = 0.0
    slack = max(_ROUNDING.get(name, 0.0) * frame.sample_rate, 2.0)
    if complained and name in _CLOCKED:
        slack = frame.samples / 2
    return (round(ahead) if abs(ahead) > slack else 0), now + frame.samples


def guess(name: str, gap: Gap, samples: int, usual: int) -> int:
    """Samples of packets that were dropped where no time tells, by their number, or their size
    against the `usual` one; `samples` are those of a frame."""
    lost = gap.packets
    if name in _BARE and usual and gap.frames < gap.packets:
        lost = max(round(gap.size / usual), 1)
    return lost * samples
