"""Windows of a conversation: which of the pauses in which nobody speaks end one.

In: pauses in order of time. Out: spans that cover everything between the first pause and the last.
Positions and lengths are samples at the native rate.

A window is `shortest` to `longest` long; of the pauses that it may end at, it takes the one that is
cheapest: near `target`, long, and with no scrap behind it. A long silence always ends one. What is
too short is `short_dialogue`; where nobody pauses for `longest`, `no_pause`.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf, log

from ..plugins.contracts.segmenters import Span

PAUSE_WORTH = 0.2  # gain of a pause of PAUSE_S or more: makes up for a length 22 % off target
PAUSE_S = 1.0
SCRAP = 1.0  # cost of a rest that is too short for a window

TOO_SHORT, NO_PAUSE = "short_dialogue", "no_pause"


@dataclass(frozen=True, slots=True)
class Lengths:
    """Of windows, in samples at `rate` Hz."""

    shortest: int
    target: int
    longest: int
    rate: int


@dataclass(frozen=True, slots=True)
class Pause:
    """Where nobody speaks for `length` samples: a window ends at `end`, the next one begins at
    `begin`."""

    end: int
    begin: int
    length: int


class WindowCuts:
    """Takes conversations and the pauses in them; `final` collects spans, which the caller
    empties."""

    def __init__(self, lengths: Lengths) -> None:
        self._lengths = lengths
        self._start: int | None = None  # of the window that is open
        self._done = 0  # without an open window: samples before it are covered
        self._pauses: list[Pause] = []  # since its start
        self.final: list[Span] = []

    @property
    def open_start(self) -> int | None:
        """First sample of the open window, or None."""
        return self._start

    def begins(self, begin: int) -> None:
        """A conversation begins, after silence."""
        if self._done < begin:
            self.final.append(Span(self._done, begin, "non_speech"))
        self._start = begin

    def pause(self, pause: Pause, until: int) -> None:
        """The next pause; `until`: where its conversation ends."""
        if self._start is None:
            self.final.append(Span(self._done, pause.end, "unsegmented", reason=NO_PAUSE))
            self._go_on(pause)
        else:
            self._pauses.append(pause)
            self._decide(pause.end, until)

    def reached(self, position: int, until: int) -> None:
        """There is no pause between the last one and `position`."""
        self._decide(position, until)

    def ends(self, end: int, length: int) -> None:
        """The conversation ends, in a silence of `length` samples."""
        pause = Pause(end, end, length)
        if self._start is None:
            self.final.append(Span(self._done, end, "unsegmented", reason=NO_PAUSE))
        else:
            self._pauses.append(pause)
            self._decide(end, end, complete=True)
            if self._pauses:
                self._leave(pause, TOO_SHORT)
        self._start, self._done = None, end

    def _decide(self, heard: int, until: int, complete: bool = False) -> None:
        """End windows as long as no later pause can be a better end; `complete`: there is none."""
        while self._start is not None:
            best = min(self._pauses, key=lambda pause: self._cost(pause, until), default=None)
            cost = inf if best is None else self._cost(best, until)
            if best is not None and cost < inf:
                if not complete and self._least_after(heard) < cost:
                    return
                self.final.append(Span(self._start, best.end))
                self._go_on(best)
            elif heard - self._start > self._lengths.longest:
                self._give_up()
            else:
                return

    def _cost(self, pause: Pause, until: int) -> float:
        assert self._start is not None
        lengths, length = self._lengths, pause.end - self._start
        if not lengths.shortest <= length <= lengths.longest:
            return inf
        worth = PAUSE_WORTH * min(pause.length / lengths.rate / PAUSE_S, 1.0)
        scrap = SCRAP if 0 < until - pause.begin < lengths.shortest else 0.0
        return abs(log(length / lengths.target)) - worth + scrap

    def _least_after(self, heard: int) -> float:
        """The least cost of a pause after `heard`."""
        assert self._start is not None
        length = heard - self._start
        if length > self._lengths.longest:
            return inf
        return log(max(length / self._lengths.target, 1.0)) - PAUSE_WORTH

    def _give_up(self) -> None:
        """No window can begin at `_start`: leave out what lies before the last pause that is near
        enough to end one, else before the next pause."""
        assert self._start is not None
        end = self._start + self._lengths.longest
        if near := [pause for pause in self._pauses if pause.end <= end]:
            self._leave(near[-1], TOO_SHORT)
        elif self._pauses:
            self._leave(self._pauses[0], NO_PAUSE)
        else:
            self._done, self._start = self._start, None

    def _leave(self, pause: Pause, reason: str) -> None:
        assert self._start is not None
        if self._start < pause.end:
            self.final.append(Span(self._start, pause.end, "unsegmented", reason=reason))
        self._go_on(pause)

    def _go_on(self, pause: Pause) -> None:
        """Begin a window after a pause."""
        self._pauses = [later for later in self._pauses if later.end > pause.end]
        if pause.end < pause.begin:
            self.final.append(Span(pause.end, pause.begin, "non_speech"))
        self._start = pause.begin
