"""Clipping: runs of samples at a channel's own highest or lowest value ("flat tops").

Three or more equal samples in a row at the extreme are clipping, at full scale or below: a clipped
recording that was made quieter has its flat tops at a lower level. A signal that merely peaks
touches its extreme once or twice. Channels that do not go into the mix, such as an LFE, are not
judged. Extremes below `MIN_LEVEL` are ignored, as silence also has equal samples.
"""

from __future__ import annotations

import numpy as np

from ..audio import Clip
from ..base.arrays import Bools, Int64s
from ..settings import StageSettings, Threshold

VERSION = 1
MIN_RUN = 3  # samples
MIN_LEVEL = 0.05  # of full scale
COLUMNS = {
    "clipping_fraction": ("1", "share of samples, over all channels, that lie in flat tops"),
    "clipping_longest": ("samples", "longest flat top of any channel"),
}
REASONS = dict.fromkeys(COLUMNS, ("unclipped", "clipped"))


class Settings(StageSettings):
    min_fraction: float | None = Threshold(None, "Smallest clipped share kept, 0 to 1.", ge=0, le=1)
    max_fraction: float | None = Threshold(0.01, "Largest clipped share kept, 0 to 1.", ge=0, le=1)
    min_longest: float | None = Threshold(
        None, "Least length of the longest flat top, samples.", ge=0
    )
    max_longest: float | None = Threshold(None, "Longest flat top kept, samples.", ge=0)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if not clip.num_samples:
        return dict.fromkeys(COLUMNS)
    peaks = []  # of each block: the magnitudes of its extremes, [channels, 2]
    for block in clip.mixed_blocks():
        columns = np.ascontiguousarray(block.T)
        peaks.append(np.stack([columns.max(axis=1), -columns.min(axis=1)], axis=1))
    levels = np.fmax.reduce(peaks)
    levels[~(levels >= MIN_LEVEL)] = np.nan
    open_runs = np.zeros(levels.shape, np.int64)
    runs = [np.zeros(1, np.int64)]
    for block, peak in zip(clip.mixed_blocks(), peaks, strict=True):
        for channel, side in np.argwhere((peak == levels) | (open_runs > 0)).tolist():
            level = levels[channel, side] * (1, -1)[side]
            ended, after = _runs(block[:, channel] == level, open_runs[channel, side])
            runs.append(ended)
            open_runs[channel, side] = after
    lengths = np.concatenate([*runs, open_runs.ravel()])
    flat = lengths[lengths >= MIN_RUN]
    return {
        "clipping_fraction": float(flat.sum()) / (clip.num_samples * len(clip.in_mix)),
        "clipping_longest": float(flat.max(initial=0)),
    }


def _runs(flat: Bools, before: int) -> tuple[Int64s, int]:
    """Lengths of the runs that end in a block, before which one of `before` samples is open, and of
    the one that is open after it."""
    where = np.flatnonzero(flat)
    if not len(where):
        return np.full(1, before), 0
    lengths = np.diff(np.flatnonzero(np.diff(where, prepend=-2, append=len(flat) + 1) > 1))
    if where[0] == 0:
        lengths[0] += before
    else:
        lengths = np.concatenate([[before], lengths])
    return (lengths[:-1], int(lengths[-1])) if flat[-1] else (lengths, 0)
