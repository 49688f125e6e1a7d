"""Speech regions of one clip, in seconds, by Silero's probabilities and hysteresis.

For clips that are already cut; `tasks/segmenters/vad.py` cuts whole recordings, with more care.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tasks.speech.hysteresis import Hysteresis
from tasks.speech.silero import WINDOW, Probabilities
from tasks.speech_rate import RATE

THRESHOLD, NEG_THRESHOLD = 0.5, 0.35
PAUSE_WINDOWS = 3  # windows below NEG_THRESHOLD that end a region: 96 ms
STEP = WINDOW / RATE  # s
#: Start and end in seconds.
Span = tuple[float, float]


def spans(samples: NDArray[np.float32]) -> tuple[Span, ...]:
    """Speech regions of float32 [n] mono samples at 16 kHz, in order."""
    if not len(samples):
        return ()
    detector = Probabilities(RATE)
    grid = samples[:, None]
    found = np.concatenate([detector.push(grid), detector.finish()])
    return regions(found.tolist(), len(samples) / RATE)


def regions(probabilities: Iterable[float], seconds: float) -> tuple[Span, ...]:
    """Speech regions from probabilities of 32 ms windows; an open region ends at `seconds`."""
    # The first window of a pause counts towards its length here, but not in Hysteresis.
    hysteresis = Hysteresis(THRESHOLD, NEG_THRESHOLD, PAUSE_WINDOWS - 1)
    found = [region for value in probabilities if (region := hysteresis.push(value))]
    spans = [(start * STEP, end * STEP) for start, end in found]
    if hysteresis.start is not None:
        end = seconds if hysteresis.pause is None else hysteresis.pause * STEP
        spans.append((hysteresis.start * STEP, end))
    return tuple(spans)


def within(speech: Iterable[Span], start: float, end: float) -> float:
    """Seconds of speech between `start` and `end`."""
    return sum(max(0.0, min(last, end) - max(first, start)) for first, last in speech)
