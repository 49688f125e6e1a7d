"""Speech regions from window probabilities by two thresholds, as in Silero's own code."""

from __future__ import annotations


class Hysteresis:
    """Takes one probability per window and returns speech regions as (start, end) in windows.

    A region starts at a window of at least `threshold`. It ends at the first window below
    `neg_threshold`, confirmed by another one at least `pause_windows` later with no window of at
    least `threshold` in between.
    """

    def __init__(self, threshold: float, neg_threshold: float, pause_windows: int) -> None:
        self._threshold, self._neg_threshold = threshold, neg_threshold
        self._pause_windows = pause_windows
        self._at = 0
        #: Start of the open region, None outside of speech.
        self.start: int | None = None
        #: Where the open region ends if the pause at hand is confirmed.
        self.pause: int | None = None

    def push(self, probability: float) -> tuple[int, int] | None:
        """Take the next window; return the region whose end it confirms, if any."""
        at, region = self._at, None
        self._at += 1
        if probability >= self._threshold:
            self.pause = None
            if self.start is None:
                self.start = at
        elif probability < self._neg_threshold and self.start is not None:
            if self.pause is None:
                self.pause = at
            if at - self.pause >= self._pause_windows:
                region = self.start, self.pause
                self.start = self.pause = None
        return region

    def finish(self) -> tuple[int, int] | None:
        """The region still open, ended by the pause at hand or else by the last window."""
        if self.start is None:
            return None
        region = self.start, self._at if self.pause is None else self.pause
        self.start = self.pause = None
        return region
