"""Stretches of speech to utterances: joined over short pauses, parted at the longest ones.

Neighbours are joined while the pause between them is shorter than `gap`. What grows to more than
`SLACK` times the target is parted at its longest pause between half the target and that, so that a
sentence is rarely cut. A stretch without a pause may be longer, up to `longest`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SLACK = 1.25

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Lengths:
    """All in windows. `shortest`: what is shorter is not left alone where a neighbour is near."""

    shortest: int
    target: int
    longest: int
    gap: int

    @property
    def most(self) -> int:
        return min(int(self.target * SLACK), self.longest)


class Joining:
    """Takes stretches in order. `pieces` gathers (start, end, where speech goes on, if known).

    `dip(low, high)` gives the best place to cut between two windows: (end, next start).
    """

    def __init__(self, lengths: Lengths, dip: Callable[[int, int], Range]) -> None:
        self._lengths, self._dip = lengths, dip
        self._parts: list[Range] = []  # of the utterance that may still grow
        self._cut: int | None = None  # where the stretch under way was cut last
        self.pieces: list[tuple[int, int, int | None]] = []

    @property
    def start(self) -> int | None:
        """Start of what is not settled."""
        return self._parts[0][0] if self._parts else self._cut

    def reaches(self, start: int, at: int) -> None:
        """The stretch that began at `start` goes on, at least up to `at`."""
        start = self._cut_long(self._from(start), at, self._lengths.shortest)
        self._part([(start, at)])

    def ends(self, start: int, end: int) -> None:
        """A stretch is complete."""
        start = self._cut_long(self._from(start), end, 0)
        self._cut = None
        if end > start:
            self._part([(start, end)])
            self._parts.append((start, end))

    def silent(self, at: int) -> None:
        """No speech begins before `at`."""
        if self._parts and at - self._parts[-1][1] >= self._lengths.gap:
            self._close(len(self._parts), None)

    def finish(self) -> None:
        self._close(len(self._parts), None)

    def _from(self, start: int) -> int:
        """Start of what is left of a stretch; a long pause before it closes what was there."""
        start = start if self._cut is None else self._cut
        if self._parts and start - self._parts[-1][1] >= self._lengths.gap:
            self._close(len(self._parts), start)
        return start

    def _part(self, coming: list[Range]) -> None:
        """Close utterances until the rest, with what is coming, is short enough."""
        lengths = self._lengths
        while self._parts:
            parts = self._parts + coming
            begin = parts[0][0]
            if parts[-1][1] - begin <= lengths.most:
                return
            breaks = range(1, len(parts))
            fair = [k for k in breaks if self._fair(parts, k)]
            if not fair:
                # A scrap is better joined than left alone; `_cut_long` bounds what comes of it.
                last = parts[-1][1] - parts[-1][0] < lengths.shortest
                if self._is_scrap() or (last and parts[-1][1] - begin <= lengths.longest):
                    return
            best = max(fair or [len(parts) - 1], key=lambda k: (parts[k][0] - parts[k - 1][1], k))
            self._close(best, parts[best][0])

    def _fair(self, parts: list[Range], k: int) -> bool:
        """Whether parting before part `k` leaves no scrap, and about the target's length."""
        lengths = self._lengths
        first = parts[k - 1][1] - parts[0][0]
        rest = parts[-1][1] - parts[k][0]
        return min(first, rest) >= lengths.shortest and (
            lengths.target // 2 <= first <= lengths.most
            or (first < lengths.target // 2 and k == len(parts) - 1)
        )

    def _cut_long(self, start: int, end: int, spare: int) -> int:
        """Cut utterances off a stretch until the rest is short enough; where the rest begins."""
        lengths = self._lengths
        while True:
            begin = start
            # A scrap that is too short to stand alone goes along with what follows it.
            if self._is_scrap():
                begin = self._parts[0][0]
            if end - begin <= lengths.longest + spare:
                return start
            if begin == start:
                self._close(len(self._parts), start)
            least = max(min(lengths.target, lengths.longest) // 2, lengths.shortest)
            low = max(begin + least, start + 1)
            high = max(min(begin + lengths.longest, end - lengths.shortest), low)
            stop, start = self._dip(low, high)
            self._parts = [(begin, stop)]
            self._close(1, start)
            self._cut = start

    def _is_scrap(self) -> bool:
        """Whether what waits is too short to stand alone."""
        parts = self._parts
        return bool(parts) and parts[-1][1] - parts[0][0] < self._lengths.shortest

    def _close(self, count: int, following: int | None) -> None:
        """Settle the first parts as one utterance."""
        if count:
            self.pieces.append((self._parts[0][0], self._parts[count - 1][1], following))
            del self._parts[:count]
