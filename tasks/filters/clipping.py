"""Clipping: runs of samples at a channel's own highest or lowest value ("flat tops").

Three or more equal samples in a row at the extreme are clipping, at full scale or below: a clipped
recording that was made quieter has its flat tops at a lower level. A signal that merely peaks
touches its extreme once or twice. Channels that do not go into the mix, such as an LFE, are not
judged. Extremes below `MIN_LEVEL` are ignored, as silence also has equal samples.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..audio import Clip
from ..base.arrays import Float32s
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


@dataclass(slots=True)
class _Peak:
    """Flat tops of one channel on one side of a stream; `sign` -1: on the negative side."""

    sign: int
    level: float = MIN_LEVEL
    open: int = 0  # length of the run that the last block ended in
    clipped: int = 0
    longest: int = 0

    def push(self, samples: Float32s, extreme: float) -> None:
        """The next samples of the channel, and the furthest of them on this side."""
        if extreme > self.level:
            # A new extreme: earlier runs were below it, so they were not clipping.
            self.level, self.open, self.clipped, self.longest = extreme, 0, 0, 0
        elif extreme != self.level:  # lower, or NaN
            self.end()
            return
        where = np.flatnonzero(samples == np.float32(self.sign * self.level))  # at least one
        if len(where) < MIN_RUN and where[0] > 0 and where[-1] < len(samples) - 1:
            self.end()  # as in most blocks: no run here counts, begins before, or may go on
            return
        gaps = np.flatnonzero(where[1:] - where[:-1] > 1)
        first = np.concatenate([where[:1], where[gaps + 1]])
        last = np.concatenate([where[gaps], where[-1:]])
        lengths = last - first + 1
        if first[0] == 0:
            lengths[0] += self.open  # continued from the block before
            self.open = 0
        self.end()
        if last[-1] == len(samples) - 1:
            self.open = int(lengths[-1])  # may continue in the next block
            lengths = lengths[:-1]
        flat = lengths[lengths >= MIN_RUN]
        self.clipped += int(flat.sum())
        self.longest = max(self.longest, int(flat.max(initial=0)))

    def end(self) -> None:
        """Count the open run."""
        if self.open >= MIN_RUN:
            self.clipped += self.open
            self.longest = max(self.longest, self.open)
        self.open = 0


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    channels = len(clip.in_mix)
    peaks = [(channel, _Peak(sign)) for channel in range(channels) for sign in (1, -1)]
    for block in clip.mixed_blocks():
        top, bottom = float(block.max()), float(block.min())
        if _lower(top, bottom, [peak for _, peak in peaks]):
            for _, peak in peaks:
                peak.end()
            continue
        columns = np.ascontiguousarray(block.T)
        for channel, peak in peaks:
            samples = columns[channel]
            if channels > 1:
                top, bottom = float(samples.max()), float(samples.min())
            peak.push(samples, top if peak.sign > 0 else -bottom)
    for _, peak in peaks:
        peak.end()
    clipped = sum(peak.clipped for _, peak in peaks)
    if not clip.num_samples:
        return dict.fromkeys(COLUMNS)
    return {
        "clipping_fraction": clipped / (clip.num_samples * channels),
        "clipping_longest": float(max(peak.longest for _, peak in peaks)),
    }


def _lower(top: float, bottom: float, peaks: list[_Peak]) -> bool:
    """Whether a block with these extremes over all channels reaches no channel's. True for most
    blocks, and cheap to tell."""
    highest = min(peak.level for peak in peaks if peak.sign > 0)
    lowest = max(-peak.level for peak in peaks if peak.sign < 0)
    return top < highest and bottom > lowest
