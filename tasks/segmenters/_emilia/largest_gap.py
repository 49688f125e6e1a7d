"""Group speech regions into pieces shorter than a limit by splitting at the largest gaps.

In: speech regions in order. Out: pieces (start, end), in the same unit. The rule of Emilia-Pipe is
recursive: a group of regions that is not shorter than the limit is split at its largest gap (the
first of equal ones), and so is each part. A single region stays whole.

Streaming works because a gap splits if and only if the speech between the next larger gaps on its
left and right is not shorter than the limit. So each gap is decided within one limit's length, and
only undecided gaps are kept, each smaller than the one before it.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class _Gap:
    width: int
    group_start: int  # start of the speech after the nearest gap before it that is not smaller
    speech_end: int  # before the gap
    next_start: int  # of the speech after the gap


class LargestGapSplitter:
    """`final` collects final pieces; the caller empties it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.final: list[tuple[int, int]] = []
        #: Start of the piece that is not final.
        self.pending_start: int | None = None
        self._first_start: int | None = None
        self._last_end: int | None = None  # None while a region is open
        self._gaps: list[_Gap] = []
        self._splits = 0  # how many gaps, from the first, are known to split

    @property
    def is_open(self) -> bool:
        """Whether a region has begun and not ended."""
        return self._first_start is not None and self._last_end is None

    def region_begins(self, start: int) -> None:
        if self._first_start is None:
            self._first_start = start
        if self._last_end is not None:
            already_split = self.pending_start is None  # by `no_speech_before`
            self._forget_smaller(start - self._last_end)
            gap = _Gap(start - self._last_end, self._group_start(), self._last_end, start)
            self._gaps.append(gap)
            if already_split:
                self._splits = len(self._gaps)
        if self.pending_start is None:
            self.pending_start = start
        self._last_end = None

    def region_reaches(self, until: int) -> None:
        """The open region lasts at least up to `until`."""
        while self._splits < len(self._gaps):
            gap = self._gaps[self._splits]
            if until - gap.group_start < self._limit:
                return
            assert self.pending_start is not None
            self.final.append((self.pending_start, gap.speech_end))
            self.pending_start = gap.next_start
            self._splits += 1

    def region_ends(self, end: int) -> None:
        self.region_reaches(end)
        self._last_end = end

    def no_speech_before(self, position: int) -> None:
        """The current gap lasts at least up to `position`: split there if that is wide enough."""
        if self._last_end is None or self.pending_start is None:
            return
        self._forget_smaller(position - self._last_end)
        if position - self._group_start() >= self._limit:
            self._settle_last()

    def finish(self) -> None:
        """No region follows, and none is open."""
        if self._last_end is not None and self.pending_start is not None:
            self._settle_last()

    def _settle_last(self) -> None:
        assert self.pending_start is not None
        assert self._last_end is not None
        self.final.append((self.pending_start, self._last_end))
        self.pending_start = None

    def _forget_smaller(self, width: int) -> None:
        """Drop gaps smaller than a later one: their groups are complete, so they are decided."""
        while self._gaps and self._gaps[-1].width < width:
            self._gaps.pop()
        self._splits = min(self._splits, len(self._gaps))

    def _group_start(self) -> int:
        assert self._first_start is not None
        return self._gaps[-1].next_start if self._gaps else self._first_start
