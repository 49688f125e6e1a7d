"""Samples missing before a frame, by its timestamp."""

from __future__ import annotations

import av

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
}
#: Containers whose timestamps may come from a recorder's clock, and jitter by up to half a frame.
#: Those that are not above count only where FFmpeg reported an error, to say how much is missing.
_CLOCKED = {"mov", "flv", "asf"}
#: In these, a time that goes back, or ahead by more than _SPLICE, is a splice, as in `ffmpeg`
#: (-dts_delta_threshold).
_SPLICED, _SPLICE = {"mpegts", "asf"}, 10.0  # s


def missing_before(
    name: str, frame: av.AudioFrame, tick: tuple[int, int], expected: float | None, complained: bool
) -> tuple[int | None, float | None]:
    """(samples missing before a frame, time after it in samples).

    The first is negative where time goes back, and None where timestamps tell nothing. `name` is
    the container's; `tick` is the unit of its times, a fraction of a second; `expected` is the
    time after the frame before, in samples; `complained` says whether FFmpeg reported an error
    since then.
    """
    if name not in _CLOCKED and name not in _ROUNDING:
        return None, None
    pts = frame.pts
    if pts is None:  # after damage; the next frame has a time
        return 0, None if expected is None else expected + frame.samples
    now = pts * tick[0] * frame.sample_rate / tick[1]  # rounded once
    # A FLAC frame holds its number; that is a time only if the header states the right frame size.
    sure = complained or (name in _ROUNDING and name != "flac")
    ahead = 0.0 if expected is None or not sure else now - expected
    if name in _SPLICED and not complained and not 0 < ahead < _SPLICE * frame.sample_rate:
        ahead = 0.0
    slack = max(_ROUNDING.get(name, 0.0) * frame.sample_rate, 2.0)
    if complained and name in _CLOCKED:
        slack = frame.samples / 2
    return (round(ahead) if abs(ahead) > slack else 0), now + frame.samples
