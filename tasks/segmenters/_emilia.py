"""Speaker turns to utterances by the rules of Emilia-Pipe, in one pass.

1. Turns in the order of the source; one that ends no later than the one before it is left out.
2. A turn of up to 20 s is one piece; a longer one is divided at pauses (`_turn.py`).
3. A piece of `max_seconds` or more is cut every `max_seconds`, the rest stands alone. One shorter
   than `min_seconds` is joined to the piece before it in the list when that has the same speaker,
   ends less than `max_gap_seconds` before it, and the whole stays below `max_seconds`.
4. What is shorter than `min_seconds` then is dropped: `unsegmented`, `below_min_seconds`.

The rule is not symmetric: a short piece is joined to a long one before it, never to one after it,
and a piece of another speaker between them, dropped or not, keeps them apart.

Held in memory: bounds of spans, and for every turn that is under way the detector's state and 16 s
of its audio. The list is in the order of the turns: while turns overlap, the pieces of the later
one wait until the earlier one has ended, and so do their samples (as many as `cutting.py` keeps).
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from tasks.recording import Segment
from tasks.segmenters import Kind, Span
from tasks.segmenters._speech import Limits
from tasks.segmenters._turn import Piece, Turn
from tasks.segmenters.given import complement, sample

Range = tuple[int, int]
FAR = 1 << 60  # samples: beyond the end of any recording


class Rules(Limits, Protocol):
    """The settings of `vad`."""

    @property
    def min_seconds(self) -> float: ...
    @property
    def max_seconds(self) -> float: ...
    @property
    def max_gap_seconds(self) -> float: ...


class Emilia:
    """Speaker turns are the source's segments; without any, one turn is the whole recording."""

    def __init__(self, rules: Rules, rate: int, given: Sequence[Segment]) -> None:
        self._rules, self._rate = rules, rate
        self._count = 0
        self._asked, turns = _turns(rules, rate, given)
        self._turns = deque(turns)  # in the order of the list
        self._ahead = sorted(turns, key=lambda turn: turn.start, reverse=True)
        self._under_way: list[Turn] = []
        self._done: set[int] = set()  # by id, as long as they stand in `_turns`
        self._spoken: list[Range] = []
        # low[n]: the earliest start among the last n turns
        self._low = [math.inf]
        for turn in reversed(turns):
            self._low.append(min(turn.start, self._low[-1]))
        self._last: Piece | None = None  # end of the list: it may still grow
        self._used: list[Range] = []
        self._short: list[Range] = []
        self._out: list[Span] = []

    def push(self, block: NDArray[np.float32]) -> list[Span]:
        before, self._count = self._count, self._count + len(block)
        while self._ahead and self._ahead[-1].start < self._count:
            self._under_way.append(self._ahead.pop())
        for turn in self._under_way:
            low, high = max(turn.start, before), int(min(turn.end, self._count))
            if low < high:
                turn.push(block[low - before : high - before])
        self._end([turn for turn in self._under_way if turn.end <= self._count])
        self._list()
        return self._take()

    def finish(self) -> list[Span]:
        self._end(self._under_way)
        outside, self._ahead = self._ahead, []
        self._end(outside)
        self._list()
        self._settle()
        at = self._count
        self._out += [Span(at, at, given=turn.index) for turn in reversed(outside)]
        every = [(0, at)]
        layers: list[tuple[Kind, str | None, list[Range]]] = [
            ("unsegmented", "below_min_seconds", self._short),
            ("non_speech", None, self._spoken),
            ("unsegmented", "overlap", self._asked),
            ("unsegmented", "outside_segments", every),
        ]
        taken = self._used
        for kind, reason, ranges in layers:
            free = _free(ranges, taken, at)
            self._out += [Span(a, b, kind, reason=reason) for a, b in free]
            taken = taken + free
        return self._take()

    @property
    def needed_from(self) -> int:
        ends = self._count if self._last is None else self._last.start
        return int(min(self._count, ends, self._next()))

    def _next(self) -> float:
        """No piece that is still to join the list begins before this sample."""
        if not self._turns:
            return math.inf
        return min(self._turns[0].low, self._low[len(self._turns) - 1])

    def _end(self, turns: list[Turn]) -> None:
        for turn in turns:
            turn.finish(self._count)
            self._done.add(id(turn))
            if turn.start < turn.end:
                self._spoken.append((turn.start, int(turn.end)))
        self._under_way = [turn for turn in self._under_way if id(turn) not in self._done]

    def _list(self) -> None:
        """Put what is settled on the list, the turns in their order."""
        while self._turns:
            turn = self._turns[0]
            for piece in turn.pieces:
                self._add(piece)
            turn.pieces.clear()
            if id(turn) not in self._done:
                break
            self._done.remove(id(self._turns.popleft()))
        last, rules = self._last, self._rules
        if last is not None:  # nothing that begins so late can be joined to it
            far = self._next() - last.end >= rules.max_gap_seconds * self._rate
            if far or self._next() - last.start >= rules.max_seconds * self._rate:
                self._settle()

    def _add(self, piece: Piece) -> None:
        last = self._last
        if last is not None and self._joins(last, piece):
            last.end, last.whole = piece.end, False
        else:
            self._settle()
            self._last = piece

    def _joins(self, last: Piece, piece: Piece) -> bool:
        rules, rate = self._rules, self._rate
        return (
            not piece.alone
            and piece.end - piece.start < rules.min_seconds * rate
            and piece.speaker == last.speaker
            and piece.start - last.end < rules.max_gap_seconds * rate
            and piece.end - last.start < rules.max_seconds * rate
        )

    def _settle(self) -> None:
        """The end of the list grows no more."""
        last, self._last = self._last, None
        if last is None or last.end <= last.start:
            return
        bounds = (last.start, last.end)
        if last.end - last.start < self._rules.min_seconds * self._rate:
            self._short.append(bounds)
            return
        self._used.append(bounds)
        if last.whole:
            self._out.append(Span(*bounds, given=last.turn))
        else:
            self._out.append(Span(*bounds, turn=last.turn))

    def _take(self) -> list[Span]:
        out, self._out = self._out, []
        return out


def _turns(rules: Rules, rate: int, given: Sequence[Segment]) -> tuple[list[Range], list[Turn]]:
    """Bounds of all segments in samples, and the turns that count: each ends after all before."""
    longest = rules.max_seconds
    if not given:
        return [], [Turn(rules, longest, rate, 0, math.inf)]
    asked, turns, last_end = [], [], 0.0
    for index, segment in enumerate(given):
        start = int(min(sample(segment.start, rate), FAR))
        end = sample(segment.end, rate)
        asked.append((start, int(min(end, FAR))))
        if end > last_end:
            last_end = end
            turns.append(Turn(rules, longest, rate, start, end, index, segment.speaker))
    return asked, turns


def _free(ranges: list[Range], taken: list[Range], count: int) -> list[Range]:
    """The samples of [0, count) that lie in `ranges` and not in `taken`, in order."""
    beside = complement([r for r in ranges if r[0] < r[1]], count)
    return complement(taken + beside, count)
