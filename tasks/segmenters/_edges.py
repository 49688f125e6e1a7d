"""How far speech reaches into the pause beside it, by level.

A detector needs evidence before it is sure, so what it calls the beginning is often the second
syllable or the second word. The level tells better: speech stands above the noise of the pause that
it breaks. Nothing here is absolute: the level of the pause is measured beside each edge anew.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.speech.silero import RATE, WINDOW

Levels = NDArray[np.float64]

SECOND = RATE / WINDOW  # windows
REACH = round(1.44 * SECOND)  # windows that an edge may move
BEYOND = round(2 * SECOND)  # windows after those that tell how loud the pause is
LOOK = REACH + BEYOND
QUIET = round(
    0.256 * SECOND
)  # windows below the threshold that end a walk: longer than a plosive's
ABOVE_DB = 4.0  # noise of one kind strays less than this from its mean, over 32 ms
BELOW_DB = 35.0  # what is further below the speech beside it is not heard as a part of it
# The pause holds both the noise and, perhaps, speech. Its noise is first taken to be its quietest
# tenth; only where that lets an edge run on without end, so that the noise itself must vary by
# more, it is taken to be louder.
SHARES = (0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
SHORT = round(SECOND)  # windows of a pause that may hold nothing but speech
LIKE_DB = 10.0  # in such a pause, what is not further below the speech beside it is speech too
LOWEST_DB = -100.0  # of digital silence


def levels(windows: NDArray[np.float32]) -> Levels:
    """Level of each window, dBFS, of float32 [n, samples]."""
    power = np.mean(windows.astype(np.float64) ** 2, axis=1)
    decibels: Levels = 10 * np.log10(np.maximum(power, 10 ** (LOWEST_DB / 10)))
    return decibels


def speech_level(inside: Levels) -> float:
    """Level of a stretch's louder windows, dBFS."""
    return float(np.percentile(inside, 75))


def reach(pause: Levels, speech: float) -> int:
    """Windows of a pause that belong to the speech beside it, whose level is `speech`.

    `pause` are the levels of its windows from the edge on outwards, of the first `LOOK` of them at
    most.
    """
    if not len(pause):
        return 0
    near = pause[:REACH]
    for floor in np.quantile(pause, SHARES):
        threshold = max(floor + ABOVE_DB, speech - BELOW_DB)
        if len(pause) <= SHORT:
            threshold = min(threshold, speech - LIKE_DB)
        loud = np.flatnonzero(near >= threshold)
        steps = np.diff(loud, prepend=-1)
        stops = np.flatnonzero(steps > QUIET)
        if len(stops):
            loud = loud[: stops[0]]
        last = int(loud[-1]) + 1 if len(loud) else 0
        if len(pause) <= REACH or len(near) - last >= QUIET:
            return last
    return 0
