"""Speech regions from Silero's probabilities by two thresholds, and the speech of one clip in
seconds.

`spans` is for finished clips; `tasks/segmenters/vad.py` cuts whole recordings.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..base.arrays import RATE, Float32s
from .silero import WINDOW, Probabilities

THRESHOLD, NEG_THRESHOLD = 0.5, 0.35
PAUSE_WINDOWS = 3  # windows below NEG_THRESHOLD that end a region: 96 ms
STEP = WINDOW / RATE  # s
#: Start and end in seconds.
Span = tuple[float, float]


class Hysteresis:
    """Turns one probability per window into speech regions (start, end) in windows, as Silero's own
    code does.

    A region starts at a window of at least `threshold`. It ends at the first window below
    `neg_threshold`, confirmed by another one at least `pause_windows` later with no window of at
    least `threshold` in between.
    """

    def __init__(self, threshold: float, neg_threshold: float, pause_windows: int) -> None:
        self._threshold, self._neg_threshold = threshold, neg_threshold
        self._pause_windows = pause_windows
        self._at = 0
        #: Start of the open region; None outside of speech.
        self.start: int | None = None
        #: The end of the open region if the current pause is confirmed.
        self.pause: int | None = None

    def push(self, probability: float) -> tuple[int, int] | None:
        """Take the next window; return the region whose end it confirms, if any."""
        window, region = self._at, None
        self._at += 1
        if probability >= self._threshold:
            self.pause = None
            if self.start is None:
                self.start = window
        elif probability < self._neg_threshold and self.start is not None:
            if self.pause is None:
                self.pause = window
            if window - self.pause >= self._pause_windows:
                region = self.start, self.pause
                self.start = self.pause = None
        return region

    def finish(self) -> tuple[int, int] | None:
        """The open region, ended by the current pause or else by the last window."""
        if self.start is None:
            return None
        region = self.start, self._at if self.pause is None else self.pause
        self.start = self.pause = None
        return region


def spans(samples: Float32s) -> tuple[Span, ...]:
    """Speech regions of float32 [n] mono samples at 16 kHz, in order."""
    if not len(samples):
        return ()
    detector = Probabilities(RATE)
    probabilities = np.concatenate([detector.push(samples[:, None]), detector.finish()])
    # The first window counts towards a pause's length here, but not in Hysteresis.
    hysteresis = Hysteresis(THRESHOLD, NEG_THRESHOLD, PAUSE_WINDOWS - 1)
    regions = [*map(hysteresis.push, probabilities.tolist()), hysteresis.finish()]
    seconds = len(samples) / RATE
    return tuple((region[0] * STEP, min(region[1] * STEP, seconds)) for region in regions if region)


def within(speech: Iterable[Span], start: float, end: float) -> float:
    """Seconds of speech between `start` and `end`."""
    return sum(max(0.0, min(last, end) - max(first, start)) for first, last in speech)
