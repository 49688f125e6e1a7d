"""Clipping: runs of samples at a channel's own highest or lowest value ("flat tops").

Three or more equal samples in a row at the extreme are clipping, at full scale or below: a clipped
recording that was made quieter has its flat tops at a lower level. A signal that merely peaks
touches its extreme once or twice. Channels that do not go into the mix, such as an LFE, are not
judged. Extremes below `MIN_LEVEL` are ignored, as silence also has equal samples.
"""

import numpy as np

from ..audio import Clip
from ..base.arrays import Float32s, Int64s
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
    peaks = np.array([_peaks(block) for block in clip.mixed_blocks()], np.float64)
    levels = np.max(peaks, axis=0, initial=MIN_LEVEL, where=peaks > MIN_LEVEL)
    places = [[np.empty(0, np.int64)] for _ in levels]
    start = 0
    for block, reached in zip(clip.mixed_blocks(), peaks == levels, strict=True):
        for side in reached.nonzero()[0].tolist():
            level = np.float32(levels[side] if side % 2 == 0 else -levels[side])
            places[side].append(start + (block[:, side // 2] == level).nonzero()[0])
        start += len(block)
    lengths = np.concatenate([_runs(np.concatenate(side)) for side in places])
    flat = lengths[lengths >= MIN_RUN]
    return {
        "clipping_fraction": int(flat.sum()) / (clip.num_samples * len(clip.in_mix)),
        "clipping_longest": float(flat.max(initial=0)),
    }


def _peaks(block: Float32s) -> Float32s:
    """How far each channel reaches up and down, by turns."""
    columns = np.ascontiguousarray(block.T)
    return np.stack([columns.max(axis=1), -columns.min(axis=1)], 1).ravel()


def _runs(places: Int64s) -> Int64s:
    """How many places follow each other in each run of them."""
    breaks = (places[1:] - places[:-1] != 1).nonzero()[0] + 1
    edges: Int64s = np.concatenate([[0], breaks, [len(places)]])
    return edges[1:] - edges[:-1]
