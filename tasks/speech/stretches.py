"""Where somebody speaks in one clip: Silero's probabilities with Silero's own hysteresis.

For clips that are already cut. `tasks/segmenters/vad.py` cuts recordings, with more care.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from tasks.speech.silero import RATE, WINDOW, Probabilities

__all__ = ["RATE", "Span", "spans", "stretches", "within"]

BEGINS, ENDS = 0.5, 0.35  # probabilities between which a window goes on as the one before it
PAUSE_WINDOWS = 3  # windows below ENDS that end a stretch of speech: 96 ms
STEP = WINDOW / RATE  # s
#: Seconds from which to which somebody speaks.
Span = tuple[float, float]


def spans(samples: NDArray[np.float32]) -> tuple[Span, ...]:
    """Stretches of speech in float32 mono samples at 16 kHz, in order, in seconds."""
    if not len(samples):
        return ()
    detector = Probabilities(RATE)
    grid = samples[:, None]
    found = np.concatenate([detector.push(grid), detector.finish()])
    return stretches(found.tolist(), len(samples) / RATE)


def stretches(probabilities: Iterable[float], seconds: float) -> tuple[Span, ...]:
    """The same from probabilities of 32 ms windows; speech that is still open ends at `seconds`."""
    found: list[Span] = []
    begun: int | None = None
    quiet: int | None = None
    for at, probability in enumerate(probabilities):
        if probability >= BEGINS:
            quiet = None
            begun = at if begun is None else begun
        elif probability < ENDS and begun is not None:
            quiet = at if quiet is None else quiet
            if at - quiet + 1 >= PAUSE_WINDOWS:
                found.append((begun * STEP, quiet * STEP))
                begun = quiet = None
    if begun is not None:
        found.append((begun * STEP, seconds if quiet is None else quiet * STEP))
    return tuple(found)


def within(speech: Iterable[Span], start: float, end: float) -> float:
    """Seconds of speech from `start` to `end`."""
    return sum(max(0.0, min(last, end) - max(first, start)) for first, last in speech)
