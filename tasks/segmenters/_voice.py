"""Stretches of speech in a stream, by Silero's probabilities and by level.

1. Silero's own hysteresis: speech begins at a window of at least `threshold` and ends where it was
   below `neg_threshold` for `min_silence_ms`.
2. A second look at what the detector doubted in the pauses: it carries its past along, and after
   minutes of silence, noise or music it may hesitate over a word that it is sure of when it hears
   it alone. Only sounds that stand clear of their surroundings get one.
3. Both ends of a stretch are moved outwards as far as the level says (`_edges.py`).
4. What is shorter than `min_speech_ms` then is no speech.

Held in memory: levels and samples at 16 kHz of the last 20 s or so.
"""

from __future__ import annotations

from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.segmenters import _edges
from tasks.speech import silero as _silero
from tasks.speech.silero import RATE, WINDOW

SECOND = RATE / WINDOW  # windows
DOUBT = 0.3  # probability from which a sound in a pause is looked at again
QUIETEST = 0.2  # share of what is around a sound that tells how loud it is there without it
RISE_DB = 12.0  # that the sound must stand above that
LEAD = round(0.5 * SECOND)  # windows before it that a second look begins with
TAIL = round(0.4 * SECOND)  # and after it
SURROUNDINGS = round(2 * SECOND)  # windows before it that it is compared with
ONSET = 8  # windows of doubt right before speech: that is how it always begins
LONGEST = round(10 * SECOND)  # windows of such a sound; a longer one is looked at in pieces
LEAST = 6  # windows of speech that a second look must find
SURE = round(SECOND)  # windows of a stretch that tell its level
KEPT = LONGEST + _edges.LOOK + SURROUNDINGS + TAIL + LEAD  # windows that may be asked for again

Floats = NDArray[np.float32]


class Limits(Protocol):
    """The settings that matter here."""

    @property
    def threshold(self) -> float: ...
    @property
    def neg_threshold(self) -> float: ...
    @property
    def min_silence_ms(self) -> int: ...
    @property
    def min_speech_ms(self) -> int: ...


class Hysteresis:
    """Takes one probability after the other; `start` is that of the open stretch, if any."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self.start: int | None = None
        self.quiet: int | None = None  # where the open stretch may have ended
        self._at = 0

    def window(self, value: float) -> tuple[int, int] | None:
        """The stretch that is now known to have ended, as windows."""
        at, ended = self._at, None
        self._at += 1
        if value >= self._limits.threshold:
            self.quiet = None
            if self.start is None:
                self.start = at
        elif value < self._limits.neg_threshold and self.start is not None:
            if self.quiet is None:
                self.quiet = at
            if (at - self.quiet) * WINDOW * 1000 >= self._limits.min_silence_ms * RATE:
                ended = (self.start, self.quiet)
                self.start = self.quiet = None
        return ended

    def finish(self) -> tuple[int, int] | None:
        if self.start is None:
            return None
        return self.start, self._at if self.quiet is None else self.quiet


class Voice:
    """Stretches as (start, end) in windows, in order, apart or meeting, never overlapping.

    `ended` gathers those whose bounds are settled; whoever uses them empties it. `begun` is the
    start of the one under way, once that is settled, and `reached` how far it surely goes.
    """

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._raw = Hysteresis(limits)
        self._least = max(-(-limits.min_speech_ms * RATE // (1000 * WINDOW)), 1)
        self.ended: list[tuple[int, int]] = []
        self.begun: int | None = None
        self.at = 0  # windows seen
        self._first = 0  # of the windows that are kept
        self._levels: list[float] = []
        self._windows: list[Floats] = []
        self._pause_from = 0  # end of the last stretch, before it is moved
        self._doubt: tuple[int, int] | None = None  # the sound in the pause that is to be looked at
        self._last: tuple[int, int] | None = None  # settled start, end before it is moved
        self._settled = 0  # end of the last stretch in `ended`

    @property
    def reached(self) -> int:
        return self.at if self._raw.quiet is None else self._raw.quiet

    @property
    def low(self) -> int:
        """No stretch that is not in `ended` begins before this window."""
        if self._last is not None:
            return self._last[0]
        if self.begun is not None:
            return self.begun
        if self._raw.start is not None:
            start = self._raw.start
        else:
            start = (self.at if self._doubt is None else self._doubt[0]) - LEAD
        return max(start - _edges.REACH, self._pause_from, self._settled)

    def push(self, value: float, level: float, samples: Floats) -> None:
        """The next window: its probability, its level in dBFS, its samples at 16 kHz."""
        self._levels.append(level)
        self._windows.append(samples)
        before = self._raw.start
        ended = self._raw.window(value)
        self.at += 1
        if before is None and self._raw.start is not None:
            if self._doubt is not None and self._doubt[0] >= self._raw.start - ONSET:
                self._doubt = None
            self._look_again(self._raw.start)
            self._settle_end(self._raw.start)
        if ended is not None:
            self._end(*ended)
        elif self._raw.start is None:
            self._pause(value)
        elif self.begun is None and self.reached - self._raw.start >= max(SURE, self._least):
            self.begun = self._start(self._raw.start, self._raw.start + SURE)
        if len(self._levels) >= 2 * KEPT:
            self._forget()

    def finish(self) -> None:
        """The stream ended after the last window."""
        ended = self._raw.finish()
        if ended is not None:
            self._end(*ended)
        self._look_again(self.at)
        self._settle_end(self.at)

    def _pause(self, value: float) -> None:
        """A window outside of speech: gather what is in doubt, settle what was before."""
        at = self.at - 1
        if value >= DOUBT:
            start = at if self._doubt is None else self._doubt[0]
            self._doubt = (start, at + 1)
        if self._doubt is not None:
            start, end = self._doubt
            if at + 1 - end >= TAIL or end - start >= LONGEST:
                self._look_again(at + 1)
        waits = self._doubt is not None and self._doubt[0] < self._pause_from + _edges.LOOK
        if not waits and self.at - self._pause_from >= _edges.LOOK:
            self._settle_end(self.at)

    def _look_again(self, until: int) -> None:
        """Let a detector without a past hear the sound in doubt, up to the window `until`."""
        doubt, self._doubt = self._doubt, None
        if doubt is None:
            return
        start, end = doubt
        around = self._between(max(start - SURROUNDINGS, self._pause_from), until)
        loudest = max(self._between(start, end))
        if loudest < np.quantile(around, QUIETEST) + RISE_DB:
            return
        low = max(start - LEAD, self._first)
        heard = _silero.afresh(np.stack(self._windows[low - self._first : until - self._first]))
        look = Hysteresis(self._limits)
        found = [look.window(value) for value in heard.tolist()]
        for stretch in (*found, look.finish()):
            if stretch is not None:
                first = max(stretch[0] + low, self._pause_from)
                last = min(stretch[1] + low, until)
                if last - first >= LEAST:
                    self._settle_end(first)
                    self._end(first, last)

    def _end(self, start: int, end: int) -> None:
        """A stretch ended, before its bounds are moved."""
        first = self.begun if self.begun is not None else self._start(start, end)
        self.begun = None
        self._last = (first, end)
        self._pause_from = end

    def _start(self, start: int, sure: int) -> int:
        """Where a stretch begins whose windows up to `sure` tell its level."""
        speech = _edges.speech_level(self._between(start, min(sure, start + SURE)))
        pause = self._between(max(self._pause_from, start - _edges.LOOK), start)
        return max(start - _edges.reach(pause[::-1], speech), self._settled)

    def _settle_end(self, following: int) -> None:
        """The pause after the last stretch is known: up to the next one, or long enough."""
        if self._last is None:
            return
        (start, end), self._last = self._last, None
        speech = _edges.speech_level(self._between(max(start, end - SURE), end))
        pause = self._between(end, min(following, end + _edges.LOOK))
        end += _edges.reach(pause, speech)
        if end - start >= self._least:
            self.ended.append((start, end))
            self._settled = end

    def _between(self, start: int, end: int) -> NDArray[np.float64]:
        return np.array(self._levels[max(start - self._first, 0) : end - self._first])

    def _forget(self) -> None:
        del self._levels[:-KEPT], self._windows[:-KEPT]
        self._first = self.at - KEPT
