"""Caps per speaker: `package.max_hours_per_speaker` packages so much of each speaker, at most.

Of a speaker who has more, published clips come first, then others, each in the order of a seeded
draw, up to the first that does not fit: it and all after it are dropped as `package.speaker_hours`,
with the hours up to its end as value. A clip's draw depends on the seed and its id alone, so a
higher cap only adds clips, and what is published stays while its speaker has the same name and cap.
Clips of nobody in particular are not counted.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks.packaging import components, seeded, split_allocation

HOUR = split_allocation.HOUR  # µs


def over(
    rows: pa.Table, published: NDArray[np.bool_], most: float, seed: int
) -> tuple[NDArray[np.bool_], NDArray[np.float64]]:
    """Which rows (columns id, dataset, recording, speaker, sha256, num_samples, sample_rate) do not
    fit into `most` hours of their speaker; and the speaker's hours up to the end of each."""
    speaker = components.nodes_of(rows).of_row[0]
    draw = seeded.draws(f"{seed}:speaker_hours", rows["id"].to_pylist())
    length = split_allocation.microseconds(rows)
    order = np.lexsort((draw, ~published, speaker))
    summed = np.cumsum(length[order])
    first = np.r_[True, np.diff(speaker[order]) != 0]
    before = np.maximum.accumulate(np.where(first, summed - length[order], 0))
    hours = np.empty(len(order))
    hours[order] = (summed - before) / HOUR
    return (speaker >= 0) & (hours > most), hours
