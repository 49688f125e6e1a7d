"""Cuts at speaker changes: each stretch with a single speaker is cut by itself.

A stretch is a run of turns of one speaker without any other voice; it includes the pauses between
them. Overlapping speech is `unsegmented` (`overlap`), and so is a stretch shorter than the
diarizer's `min_turn_seconds` (`short_turn`). A stretch grows into the silence beside it, up to the
middle between two and GROW_S at most, since a diarizer's edges are no better than that. With
`edge_seconds` it ends that long before the middle: where the next speaker begins at once, that much
speech is left out (`turn_edge`).
"""

from bisect import bisect_left, bisect_right
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import NamedTuple

from ..base.arrays import Float32s
from ..recording.turns import Range, Voices, doubtful, merged, overlap
from . import Cover, Kind, Segmenter, Span
from .given import complement

GROW_S = 0.5


@dataclass(frozen=True, slots=True)
class Stretch:
    """Samples `start` to `end`, in which only `speaker` speaks."""

    start: int
    end: int
    speaker: int


class Stretches(NamedTuple):
    """Kept stretches, and what is not kept by the reason why it is `unsegmented`; each in order."""

    kept: list[Stretch]
    beside: dict[str, list[Range]]


def stretches(voices: Voices, rate: int) -> Stretches:
    both = merged([*overlap(voices.turns), *doubtful(voices.turns, voices.second)])
    begins, ends = [low for low, _ in both], [high for _, high in both]
    alone = [
        Stretch(start, end, turn.speaker)
        for turn in voices.turns
        for start, end in complement(
            [
                (0, turn.start),
                *both[bisect_right(ends, turn.start) : bisect_left(begins, turn.end)],
            ],
            turn.end,
        )
    ]
    alone.sort(key=lambda stretch: (stretch.start, stretch.end))
    joined: list[Stretch] = []
    for stretch in alone:
        last = joined[-1] if joined else None
        if (
            last is not None
            and last.speaker == stretch.speaker
            and bisect_left(begins, last.end) == bisect_right(begins, stretch.start)
        ):
            joined[-1] = replace(last, end=max(last.end, stretch.end))
        else:
            joined.append(stretch)
    taken = sorted(
        [(one.start, one.end, voices.edge) for one in joined] + [(*one, 0) for one in both]
    )
    kept: list[Stretch] = []
    short: list[Range] = []
    beside: list[Range] = []
    for stretch in joined:
        grown = _grown(stretch, taken, int(GROW_S * rate))
        if min(grown.end, stretch.end) - max(grown.start, stretch.start) < max(voices.shortest, 1):
            short.append((stretch.start, stretch.end))
            continue
        kept.append(grown)
        sides = (stretch.start, grown.start), (grown.end, stretch.end)
        beside += [(low, high) for low, high in sides if low < high]
    return Stretches(kept, {"overlap": both, "short_turn": short, "turn_edge": beside})


def _grown(stretch: Stretch, taken: list[tuple[int, int, int]], most: int) -> Stretch:
    """The stretch extended by half of the silence on each side, less the edge beside another.
    `taken`: start, end and edge of each stretch, and of overlap, in order."""
    before = bisect_right(taken, stretch.start, key=itemgetter(1))
    after = bisect_left(taken, stretch.end, key=itemgetter(0))
    low, high = max(stretch.start - most, 0), stretch.end + most
    if before:
        _, end, edge = taken[before - 1]
        low = max(low, (end + stretch.start + 1) // 2 + edge)
    if after < len(taken):
        start, _, edge = taken[after]
        high = min(high, (stretch.end + start) // 2 - edge)
    return replace(stretch, start=low, end=high)


class AtTurns(Cover):
    """Runs a separate segmenter on each stretch; `begin()` makes one."""

    def __init__(self, voices: Voices, rate: int, begin: Callable[[], Segmenter]) -> None:
        super().__init__()
        divided = stretches(voices, rate)
        self._waiting = deque(divided.kept)
        self._reasons = divided.beside
        self._begin = begin
        self._open: tuple[Stretch, Segmenter] | None = None
        self._count = 0  # samples pushed

    def push(self, block: Float32s) -> list[Span]:
        position = start = self._count
        self._count += len(block)
        while position < self._count:
            if self._open is None:
                if not self._waiting or self._waiting[0].start >= self._count:
                    break
                self._open = self._waiting.popleft(), self._begin()
            stretch, inner = self._open
            position, end = max(position, stretch.start), min(stretch.end, self._count)
            if end > position:
                self._place(stretch, inner.push(block[position - start : end - start]))
            position = max(position, end)
            if stretch.end <= self._count:
                self._end()
        return self.take()

    def finish(self) -> list[Span]:
        self._end()
        self._cover_between(self._count)
        return self.take()

    @property
    def needed_from(self) -> int:
        if self._open is not None:
            stretch, inner = self._open
            return stretch.start + inner.needed_from
        return min(self._waiting[0].start, self._count) if self._waiting else self._count

    def _end(self) -> None:
        if self._open is not None:
            (stretch, inner), self._open = self._open, None
            self._place(stretch, inner.finish())

    def _place(self, stretch: Stretch, spans: list[Span]) -> None:
        """Spans of a stretch as spans of the recording, after those for the gap before them."""
        for span in spans:
            start, end = span.start + stretch.start, span.end + stretch.start
            self._cover_between(start)
            voice = stretch.speaker if span.kind == "utterance" else None
            self.spans.append(replace(span, start=start, end=end, voice=voice))
            self.done = max(self.done, end)

    def _cover_between(self, end: int) -> None:
        """Cover what no stretch covers, up to `end`."""
        while self.done < end:
            self.cover(*self._what(self.done, end))

    def _what(self, position: int, end: int) -> tuple[int, Kind, str | None]:
        following = end
        for reason, ranges in self._reasons.items():
            for low, high in ranges:
                if low <= position < high:
                    return min(high, end), "unsegmented", reason
                if position < low:
                    following = min(following, low)
                    break
        return following, "non_speech", None
