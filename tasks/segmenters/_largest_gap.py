"""Divide stretches of speech at their largest gaps until every piece is short enough.

The rule looks at everything: as long as a group of stretches is not shorter than the limit, it is
parted at its largest gap (the first of equal ones), and each part alike; a single stretch stays
whole. But whether a gap parts depends only on its neighbourhood, up to the next larger gap on each
side: it does exactly when the speech between those two is not shorter than the limit. So the
decision falls within the limit's length after the gap, and nothing but the gaps that may still
part, each smaller than the one before it, is kept.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Gap:
    width: int
    left: int  # start of the speech after the nearest gap before it that is not smaller
    after: int  # where speech goes on after it
    end: int  # where speech ended before it


class LargestGap:
    """Pieces (start, end) of the stretches that are told in order; whoever uses them empties it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.pieces: list[tuple[int, int]] = []
        self.begun: int | None = None  # start of the piece that is not settled
        self._first: int | None = None
        self._end: int | None = None  # of the last stretch; None while one is open
        self._gaps: list[_Gap] = []
        self._decided = 0  # so many of them, from the first, part

    @property
    def is_open(self) -> bool:
        """Whether a stretch has begun and not ended."""
        return self._first is not None and self._end is None

    def begins(self, start: int) -> None:
        """A stretch begins."""
        if self._first is None:
            self._first = start
        if self._end is not None:
            parted = self.begun is None
            self._forget(start - self._end)
            self._gaps.append(_Gap(start - self._end, self._left(), start, self._end))
            if parted:  # `silent` has seen it
                self._decided = len(self._gaps)
        if self.begun is None:
            self.begun = start
        self._end = None

    def reaches(self, end: int) -> None:
        """The open stretch goes on at least up to here."""
        while self._decided < len(self._gaps):
            gap = self._gaps[self._decided]
            if end - gap.left < self._limit:
                return
            assert self.begun is not None
            self.pieces.append((self.begun, gap.end))
            self.begun = gap.after
            self._decided += 1

    def ends(self, end: int) -> None:
        """The open stretch ends."""
        self.reaches(end)
        self._end = end

    def silent(self, at: int) -> None:
        """No speech up to here: the gap is wide enough already to part, or it is not yet."""
        if self._end is None or self.begun is None:
            return
        self._forget(at - self._end)
        if at - self._left() >= self._limit:
            self._settle()

    def finish(self) -> None:
        """No stretch follows; the last one has ended."""
        if self._end is not None and self.begun is not None:
            self._settle()

    def _settle(self) -> None:
        assert self.begun is not None
        assert self._end is not None
        self.pieces.append((self.begun, self._end))
        self.begun = None

    def _forget(self, width: int) -> None:
        """A gap that lies before a larger one parts now or never: its surroundings are known."""
        while self._gaps and self._gaps[-1].width < width:
            self._gaps.pop()
        self._decided = min(self._decided, len(self._gaps))

    def _left(self) -> int:
        assert self._first is not None
        return self._gaps[-1].after if self._gaps else self._first
