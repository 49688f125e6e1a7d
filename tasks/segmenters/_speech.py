"""Where speech begins and ends, by Silero's own rules on the probabilities of 32 ms windows.

Speech begins at a window of at least `threshold` and ends where it was below `neg_threshold` for
`min_silence_ms`; what is not longer than `min_speech_ms` is none; both ends are padded, and two
pads that would meet share the pause. These are the rules of `get_speech_timestamps` of Silero
VAD 5 and 6, which see the whole recording; here they take one window after the other.
"""

from __future__ import annotations

from typing import Protocol

from tasks.segmenters import _voice
from tasks.speech.silero import RATE, WINDOW


class Limits(_voice.Limits, Protocol):
    """The settings that matter here; a segmenter's settings have them and more."""

    @property
    def speech_pad_ms(self) -> int: ...


class Stretches:
    """Stretches of speech as (start, end) in samples at 16 kHz, padded, in order.

    `ended` gathers those that are settled; whoever uses them empties it. `started` is the start of
    the next one once it is sure to come, and `reached` a sample that it is sure to hold.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._least = limits.min_speech_ms * RATE // 1000
        self._quiet_for = limits.min_silence_ms * RATE // 1000
        self._pad = limits.speech_pad_ms * RATE // 1000
        self.ended: list[tuple[int, int]] = []
        self.started: int | None = None
        self.at = 0  # samples seen
        self.length: int | None = None  # of the audio, told before the window that it ends in
        self._open: int | None = None  # where speech began, as yet unpadded
        self._quiet: int | None = None  # where it may have ended
        self._last: tuple[int, int] | None = None  # the one before: start padded, end not yet

    @property
    def reached(self) -> int:
        at = self.at if self.length is None else min(self.at, self.length)
        return at if self._quiet is None else self._quiet

    @property
    def low(self) -> int:
        """No stretch that is still to come, `ended` left aside, begins before this sample."""
        if self.started is not None:
            return self.started
        if self._last is not None:
            return self._last[0]
        return max((self.at if self._open is None else self._open) - self._pad, 0)

    def window(self, probability: float) -> None:
        """Take the next window."""
        if probability >= self._limits.threshold:
            self._quiet = None
            if self._open is None:
                self._open = self.at
        elif probability < self._limits.neg_threshold and self._open is not None:
            if self._quiet is None:
                self._quiet = self.at
            if self.at - self._quiet >= self._quiet_for:
                self._close(self._quiet)
        self.at += WINDOW
        if self._open is None:
            self._release()
        elif self.started is None and self.reached - self._open > self._least:
            self._begin(self._open)

    def finish(self) -> None:
        """The audio ended after `length` samples: speech that goes on ends with it."""
        length = self.at if self.length is None else self.length
        if self._open is not None:
            self._quiet = None
            self._close(length)
        if self._last is not None:
            start, end = self._last
            self.ended.append((start, min(end + self._pad, length)))
            self._last = None
        self.at = length

    def _close(self, end: int) -> None:
        start, self._open, self._quiet = self._open, None, None
        if start is not None and end - start > self._least:
            if self.started is None:
                self._begin(start)
            assert self.started is not None
            self._last = (self.started, end)
        self.started = None

    def _begin(self, start: int) -> None:
        """The open stretch is sure to count: pad its start, and the end of the one before."""
        pad = self._pad
        if self._last is not None:
            before, end = self._last
            pause = start - end
            pad = pad if pause >= 2 * pad else pause // 2
            self.ended.append((before, end + pad))
            self._last = None
        self.started = max(start - pad, 0)

    def _release(self) -> None:
        """After a pause of two pads, the end before it is settled whatever comes."""
        if self._last is not None and self.at - self._last[1] >= 2 * self._pad:
            start, end = self._last
            self.ended.append((start, end + self._pad))
            self._last = None
