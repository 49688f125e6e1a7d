"""Windows of a conversation, of 30 to 120 s, with the turns of all who speak in them.

The turns are those of `speakers`; a window begins and ends where nobody speaks: between turns, and
where the voice detector hears nothing either. Of the pauses that a window may end at, `WindowCuts`
takes the cheapest: near `target`, long, and with no scrap behind it. A silence of more than
`max_gap_seconds` always ends one, and is in no window. What is too short for one is `unsegmented`
(`short_dialogue`), and so are a stretch without a pause for `longest` (`no_pause`) and a recording
without turns (`no_turns`).

One pass; memory for about `max_seconds`.
"""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import inf, log
from typing import NamedTuple, Self

from pydantic import Field, model_validator

from ..base.arrays import RATE, Float32s
from ..recording import Segment
from ..recording.turns import Range, Voices, merged
from ..settings import StageSettings
from ..speech.silero import WINDOW, Probabilities
from ..speech.silero import identity as identity
from . import Cover, KnownSpans, Segmenter, Span

PAUSE_WORTH = 0.2  # gain of a pause of PAUSE_S or more: makes up for a length 22 % off target
PAUSE_S = 1.0
SCRAP = 1.0  # cost of a rest that is too short for a window

TOO_SHORT, NO_PAUSE = "short_dialogue", "no_pause"


@dataclass(frozen=True, slots=True)
class Pause:
    """Where nobody speaks for `length` samples: a window ends at `end`, the next one begins at
    `begin`."""

    end: int
    begin: int
    length: int


class WindowCuts(Cover):
    """Takes conversations and the pauses in them. Lengths of windows are in samples at `rate`
    Hz."""

    def __init__(self, shortest: int, target: int, longest: int, rate: int) -> None:
        super().__init__()
        self._shortest, self._target, self._longest = shortest, target, longest
        self._rate = rate
        self.open = False  # whether a window begins where the spans end
        self._pauses: list[Pause] = []  # in the open window

    def begins(self, begin: int) -> None:
        self.cover(begin, "non_speech")
        self.open = True

    def pause(self, pause: Pause, until: int) -> None:
        """The next pause; `until`: where its conversation ends."""
        if self.open:
            self._pauses.append(pause)
            self.decide(pause.end, until)
        else:
            self._leave(pause, NO_PAUSE)

    def ends(self, end: int, length: int) -> None:
        """The conversation ends, in a silence of `length` samples."""
        if self.open:
            self._pauses.append(Pause(end, end, length))
            self.decide(end, end, complete=True)
        self.cover(end, "unsegmented", TOO_SHORT if self.open else NO_PAUSE)
        self._pauses, self.open = [], False

    def decide(self, heard: int, until: int, complete: bool = False) -> None:
        """End windows as long as no pause after `heard` can be a better end; `complete`: there is
        none."""
        while self.open:
            best = min(self._pauses, key=lambda pause: self._cost(pause, until), default=None)
            cost = inf if best is None else self._cost(best, until)
            if best is not None and cost < inf:
                length = heard - self.done
                least = log(max(length / self._target, 1.0)) - PAUSE_WORTH  # of a later pause
                if not complete and length <= self._longest and least < cost:
                    return
                self.cover(best.end)
                self._go_on(best)
            elif heard - self.done > self._longest:
                self._give_up()
            else:
                return

    def _cost(self, pause: Pause, until: int) -> float:
        length = pause.end - self.done
        if not self._shortest <= length <= self._longest:
            return inf
        worth = PAUSE_WORTH * min(pause.length / self._rate / PAUSE_S, 1.0)
        scrap = SCRAP if 0 < until - pause.begin < self._shortest else 0.0
        return abs(log(length / self._target)) - worth + scrap

    def _give_up(self) -> None:
        """No window can begin here: leave out what lies before the last pause that is near
        enough to end one, else before the next pause."""
        end = self.done + self._longest
        if near := [pause for pause in self._pauses if pause.end <= end]:
            self._leave(near[-1], TOO_SHORT)
        elif self._pauses:
            self._leave(self._pauses[0], NO_PAUSE)
        else:
            self.open = False

    def _leave(self, pause: Pause, reason: str) -> None:
        self.cover(pause.end, "unsegmented", reason)
        self._go_on(pause)

    def _go_on(self, pause: Pause) -> None:
        self._pauses = [later for later in self._pauses if later.end > pause.end]
        self.begins(pause.begin)


VERSION = 1
LISTENS = True
HOLDS_TURNS = True
QUIET = 0.35  # speech probability below which nobody speaks
KEPT_S = 0.3  # of a pause kept beside a window, at most half of it


class Settings(StageSettings):
    target_seconds: float = Field(60.0, ge=1, le=3600, description="About how long a window is, s.")
    min_seconds: float = Field(30.0, ge=1, le=3600, description="Shortest window, s.")
    max_seconds: float = Field(120.0, ge=1, le=3600, description="Longest window, s.")
    max_gap_seconds: float = Field(
        3.0, ge=0.2, le=60, description="Longest silence inside a window, s."
    )
    min_pause_seconds: float = Field(
        0.15, ge=0.1, le=5, description="Shortest pause of all voices at which a window ends, s."
    )

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if not self.min_seconds <= self.target_seconds <= self.max_seconds:
            raise ValueError("target_seconds must lie between min_seconds and max_seconds")
        return self


class Gap(NamedTuple):
    """Samples `start` to `end` (None: the end of the recording) between two turns, in a
    conversation that lasts until `until`; `between`: the gap separates two conversations."""

    start: int
    end: int | None
    until: int
    between: bool


def gaps(turns: Sequence[Range], longest: int) -> list[Gap]:
    """The gaps before, between and after turns; one longer than `longest` ends a conversation."""
    busy = merged(turns)
    until = busy[-1][1]
    ordered = [Gap(until, None, until, True)]
    for (_, start), (end, _) in reversed([*pairwise(((0, 0), *busy))]):
        between = end - start > longest or start == 0
        until = start if between else until
        ordered.append(Gap(start, end, until, between))
    return ordered[::-1]


class Dialogue:
    """Positions are native samples; the voice detector's windows have 32 ms."""

    def __init__(self, settings: Settings, rate: int, voices: Voices) -> None:
        self._rate = rate
        self._kept, self._least = round(KEPT_S * rate), round(settings.min_pause_seconds * rate)
        self._model = Probabilities(rate)
        wanted = settings.min_seconds, settings.target_seconds, settings.max_seconds
        shortest, target, longest = (round(seconds * rate) for seconds in wanted)
        self._cuts = WindowCuts(shortest, target, longest, rate)
        ranges = [(turn.start, turn.end) for turn in voices.turns]
        self._gaps = deque(gaps(ranges, round(settings.max_gap_seconds * rate)))
        self._quiet: list[Range] = []  # runs of quiet windows in the first gap
        self._talking = False  # in a conversation
        self._windows = 0  # windows whose probability is known
        self._count = 0

    def push(self, block: Float32s) -> list[Span]:
        self._count += len(block)
        self._hear(self._model.push(block))
        return self._cuts.take()

    def finish(self) -> list[Span]:
        self._hear(self._model.finish())
        while self._gaps:
            self._end_gap(self._count)
        self._cuts.begins(self._count)
        return self._cuts.take()

    @property
    def needed_from(self) -> int:
        return min(self._cuts.done, self._count) if self._cuts.open else self._count

    def _hear(self, probabilities: Float32s) -> None:
        for probability in probabilities.tolist():
            start, end = self._native(self._windows), self._native(self._windows + 1)
            self._windows += 1
            while (gap := self._gaps[0]).end is not None and gap.end < end:
                self._end_gap(gap.end)
            if probability < QUIET and start >= gap.start:
                if self._quiet and self._quiet[-1][1] == start:
                    start = self._quiet.pop()[0]
                self._quiet.append((start, end))
                if (
                    self._talking
                    and gap.between
                    and end - start >= max(2 * self._kept, self._least)
                ):
                    self._stop_talking(start, end)
        if self._talking and self._gaps:
            gap = self._gaps[0]
            self._cuts.decide(min(self._native(self._windows), gap.start), gap.until)

    def _native(self, window: int) -> int:
        return window * WINDOW * self._rate // RATE

    def _end_gap(self, most: int) -> None:
        """All windows of the first gap are known; it ends at `most` at the latest."""
        gap = self._gaps.popleft()
        last = most if gap.end is None else min(gap.end, most)
        runs = [(low, min(high, last)) for low, high in self._quiet]
        runs = [(low, high) for low, high in runs if high - low >= self._least]
        self._quiet = []
        if gap.between:
            if self._talking:
                self._stop_talking(*(runs[0] if runs else (min(gap.start, last),) * 2))
            if gap.end is not None:
                low, high = runs[-1] if runs else (last, last)
                self._cuts.begins(max(high - self._kept, (low + high) // 2))
                self._talking = True
        elif runs:
            low, high = max(runs, key=lambda run: run[1] - run[0])
            middle = (low + high) // 2
            end, begin = min(low + self._kept, middle), max(high - self._kept, middle)
            self._cuts.pause(Pause(end, begin, high - low), gap.until)

    def _stop_talking(self, low: int, high: int) -> None:
        """The conversation ends where it is first quiet."""
        self._cuts.ends(min(low + self._kept, (low + high) // 2), self._kept)
        self._talking = False


class NoTurns(KnownSpans):
    """No turns are known: the recording is `unsegmented`."""

    def finish(self) -> list[Span]:
        return [Span(0, self.at, "unsegmented", reason="no_turns")] if self.at else []


def at_turns(settings: Settings, rate: int, given: Sequence[Segment], voices: Voices) -> Segmenter:
    return Dialogue(settings, rate, voices) if voices.turns else NoTurns()


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Segmenter:
    return at_turns(settings, rate, given, Voices(()))
