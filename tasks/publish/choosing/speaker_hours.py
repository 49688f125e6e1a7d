"""Caps per speaker: packages at most `package.max_hours_per_speaker` of each speaker.

A speaker's clips are ordered: first published ones, then others, both by a seeded draw. The first
that exceeds the cap and all after it are dropped as `package.speaker_hours`; each one's value is
the speaker's hours up to its end. A clip's draw depends on the seed and its id alone, so a higher
cap only adds clips, and what is published stays while its speaker has the same name and cap. Clips
without a speaker are not counted.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from tasks.base.arrays import Bools, Float64s, Int32s, Int64s, UInt64s
from tasks.publish import seeded_hash
from tasks.publish.choosing.split_allocation import HOUR
from tasks.storage.sorted_keys import first_of_runs


def turns(seed: int, ids: Iterable[str]) -> UInt64s:
    """The draw of each clip."""
    return seeded_hash.draws(f"{seed}:speaker_hours", ids)


def over(
    speaker: Int32s, turn: UInt64s, length: Int64s, published: Bools, most: float
) -> tuple[Bools, Float64s]:
    """Which clips do not fit into `most` hours of their speakers, and the speaker's hours up to the
    end of each. `speaker`: its number, -1 for none; `length`: in µs."""
    order = np.lexsort((turn, ~published, speaker))
    summed = np.cumsum(length[order])
    first = first_of_runs(speaker[order])
    before = np.maximum.accumulate(np.where(first, summed - length[order], 0))
    hours = np.empty(len(order))
    hours[order] = (summed - before) / HOUR
    return (speaker >= 0) & (hours > most), hours
