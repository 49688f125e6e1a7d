"""Move the edges of a speech region outwards by level, into the pause beside it.

The voice detector needs evidence before it is sure, so its start is often the second syllable or
even the second word. Speech, however, stands out in level above the noise of the pause. All levels
are relative: the noise is measured anew beside each edge. Windows are 32 ms.
"""

from __future__ import annotations

import numpy as np

from tasks.base.arrays import RATE, Float32s, Float64s
from tasks.speech.silero import WINDOW

SECOND = RATE / WINDOW  # windows
MAX_SHIFT = round(1.44 * SECOND)  # windows that an edge may move
BEYOND = round(2 * SECOND)  # further windows that serve to measure the pause's noise
CONTEXT = MAX_SHIFT + BEYOND
MIN_PAUSE = round(0.256 * SECOND)  # windows below the threshold that stop an edge; over a plosive
ABOVE_NOISE_DB = 4.0  # steady noise strays less than this from its mean over 32 ms
BELOW_SPEECH_DB = 35.0  # sound further below the speech is not heard as part of it
# Quantiles of the pause's levels taken as its noise. The first is used unless the edge would then
# run on without end, so that the noise itself must vary more; then the next one is tried.
NOISE_QUANTILES = (0.1, 0.2, 0.4, 0.6, 0.8, 0.95)
SHORT = round(SECOND)  # windows of a pause that may consist of speech alone
SHORT_BELOW_SPEECH_DB = 10.0  # in so short a pause, sound within this of the speech is speech
LOWEST_DB = -100.0  # level of digital silence


def levels(windows: Float32s) -> Float64s:
    """Level of each window in dBFS, from float32 [n, samples]."""
    power = np.mean(windows.astype(np.float64) ** 2, axis=1)
    decibels: Float64s = 10 * np.log10(np.maximum(power, 10 ** (LOWEST_DB / 10)))
    return decibels


def speech_level(region: Float64s) -> float:
    """Level of a region's louder windows, dBFS."""
    return float(np.percentile(region, 75))


def edge_shift(pause: Float64s, speech: float) -> int:
    """Number of windows by which an edge moves into the adjacent pause.

    `pause`: levels from the edge outwards, at most the first `CONTEXT` windows. `speech`: level of
    the speech at the edge. All in dBFS.
    """
    if not len(pause):
        return 0
    near = pause[:MAX_SHIFT]
    for noise in np.quantile(pause, NOISE_QUANTILES):
        loud = np.flatnonzero(near >= _threshold(pause, noise, speech))
        steps = np.diff(loud, prepend=-1)
        stops = np.flatnonzero(steps > MIN_PAUSE)
        if len(stops):
            loud = loud[: stops[0]]
        shift = int(loud[-1]) + 1 if len(loud) else 0
        if len(pause) <= MAX_SHIFT or len(near) - shift >= MIN_PAUSE:
            return shift
    return 0


def quietest_stretch(pause: Float64s, speech: float) -> tuple[int, int]:
    """The longest stretch of a pause that is quiet, as (start, end) in windows; of equal ones the
    last. Its end twice if nothing in it is quiet.

    Here the two edges of a pause part that both move all the way through it, over what is too short
    to stop them. Neither may take the sound at the other's end: it is part of another word.
    """
    threshold = _threshold(pause, np.quantile(pause, NOISE_QUANTILES[0]), speech)
    turns = np.flatnonzero(np.diff(np.r_[0, pause < threshold, 0]))
    if not len(turns):
        return len(pause), len(pause)
    starts, ends = turns[::2], turns[1::2]
    longest = len(starts) - 1 - int(np.argmax((ends - starts)[::-1]))
    return int(starts[longest]), int(ends[longest])


def _threshold(pause: Float64s, noise: float, speech: float) -> float:
    """From this level on, sound in a pause is part of the speech beside it."""
    threshold = max(noise + ABOVE_NOISE_DB, speech - BELOW_SPEECH_DB)
    return min(threshold, speech - SHORT_BELOW_SPEECH_DB) if len(pause) <= SHORT else threshold
