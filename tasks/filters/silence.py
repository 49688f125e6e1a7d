"""Silence in an utterance, by the level of 20 ms frames.

A frame is silent if its RMS over all channels is below `threshold_db` (dBFS), or more than
`range_db` below the loudest frame. The second test finds pauses above a high noise floor; the first
makes sure that an utterance of silence alone has no "loud" frames.
"""

import numpy as np
from pydantic import Field

from ..audio import Clip
from ..base.arrays import Float32s, Float64s
from ..settings import StageSettings, Threshold
from ._derived import chunks

VERSION = 3
FRAME_SECONDS = 0.02
COLUMNS = {
    "silence_fraction": ("1", "share of the frames that are silent"),
    "silence_leading": ("s", "silence before the first frame that is not silent"),
    "silence_trailing": ("s", "silence after the last frame that is not silent"),
    "silence_longest": ("s", "longest silence between sounds"),
}
REASONS = {
    "silence_fraction": ("too_little_silence", "silent"),
    "silence_leading": ("starts_early", "silent_start"),
    "silence_trailing": ("ends_early", "silent_end"),
    "silence_longest": ("no_pause", "long_pause"),
}


class Settings(StageSettings):
    threshold_db: float = Field(
        -65.0, ge=-200, le=0, description="Frames of lower RMS are silent, dBFS."
    )
    range_db: float = Field(
        50.0, gt=0, le=200, description="So are frames this far below the loudest one, dB."
    )
    min_fraction: float | None = Threshold(None, "Smallest silent share kept, 0 to 1.", ge=0, le=1)
    max_fraction: float | None = Threshold(0.98, "Largest silent share kept, 0 to 1.", ge=0, le=1)
    min_leading: float | None = Threshold(None, "Shortest leading silence kept, s.", ge=0)
    max_leading: float | None = Threshold(None, "Longest leading silence kept, s.", ge=0)
    min_trailing: float | None = Threshold(None, "Shortest trailing silence kept, s.", ge=0)
    max_trailing: float | None = Threshold(None, "Longest trailing silence kept, s.", ge=0)
    min_longest: float | None = Threshold(None, "Least length of the longest pause, s.", ge=0)
    max_longest: float | None = Threshold(None, "Greatest length of the longest pause, s.", ge=0)


def frame_powers(clip: Clip) -> Float64s:
    """Mean square of each 20 ms frame over all channels; the last frame may be shorter."""
    size = max(round(clip.rate * FRAME_SECONDS), 1)
    powers: list[Float64s] = []
    for chunk in chunks(clip, size):
        whole = len(chunk) // size
        powers.append(_mean_square(chunk[: whole * size].reshape(whole, size * len(clip.in_mix))))
        if len(chunk) % size:
            powers.append(_mean_square(chunk[whole * size :].reshape(1, -1)))
    return np.concatenate(powers) if powers else np.empty(0)


def _mean_square(frames: Float32s) -> Float64s:
    """One by one, so that a frame's result does not depend on its neighbours."""
    sums: Float64s
    with np.errstate(over="ignore"):  # in float32: accurate to 1e-6, or 1e-5 dB
        sums = np.vecdot(frames, frames).astype(np.float64)
    beyond = ~np.isfinite(sums)
    if beyond.any():  # samples beyond 1e19, whose squares overflow float32
        wide = frames[beyond].astype(np.float64)
        sums[beyond] = np.vecdot(wide, wide)
    sums /= frames.shape[1]
    return sums


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    powers = frame_powers(clip)
    if not len(powers):
        return dict.fromkeys(COLUMNS)
    floor = max(10 ** (settings.threshold_db / 10), powers.max() * 10 ** (-settings.range_db / 10))
    count = len(powers)
    loud = (~(powers < floor)).nonzero()[0]
    step = max(round(clip.rate * FRAME_SECONDS), 1)

    def seconds(frame: int) -> float:
        """Where a frame begins."""
        return min(frame * step, clip.num_samples) / clip.rate

    first, last = (int(loud[0]), int(loud[-1]) + 1) if len(loud) else (count, 0)
    pauses = (loud[1:] - loud[:-1] > 1).nonzero()[0]  # between two that are not silent
    between = zip((loud[pauses] + 1).tolist(), loud[pauses + 1].tolist(), strict=True)
    return {
        "silence_fraction": (count - len(loud)) / count,
        "silence_leading": seconds(first),
        "silence_trailing": seconds(count) - seconds(last),
        "silence_longest": max(
            (seconds(end) - seconds(begin) for begin, end in between), default=0.0
        ),
    }
