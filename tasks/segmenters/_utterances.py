"""Speech regions to utterances: join over short pauses, split at the longest ones.

In: speech regions in order. Out: utterances. All positions and lengths are windows of 32 ms.

1. Adjacent regions are joined if the pause between them is shorter than `max_gap`.
2. An utterance that grows beyond `SLACK` times the target is split at its longest pause between
   half the target and that limit, so that a sentence is rarely cut.
3. A region without a pause may be longer, up to `longest`; beyond, it is cut at its best dip.
4. An utterance shorter than `shortest` joins a neighbour if the limits allow it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

SLACK = 1.25

Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Lengths:
    """Limits in windows."""

    shortest: int
    target: int
    longest: int
    max_gap: int

    @property
    def split_above(self) -> int:
        return min(int(self.target * SLACK), self.longest)


class UtteranceBuilder:
    """`final` collects (start, end, start of the next speech if known); the caller empties it.

    `dip(low, high)` gives the best cut between two windows: (end, start of the next).
    """

    def __init__(self, lengths: Lengths, dip: Callable[[int, int], Range]) -> None:
        self._lengths, self._dip = lengths, dip
        self._regions: list[Range] = []  # of the utterance that may still grow
        self._cut: int | None = None  # last cut inside the open region
        self.final: list[tuple[int, int, int | None]] = []

    @property
    def pending_start(self) -> int | None:
        """Start of the speech not yet in a final utterance."""
        return self._regions[0][0] if self._regions else self._cut

    def region_reaches(self, start: int, until: int) -> None:
        """The region from `start` is still open and lasts at least up to `until`."""
        start = self._cut_long(self._rest_of(start), until, self._lengths.shortest)
        self._split([(start, until)])

    def region_ended(self, start: int, end: int) -> None:
        start = self._cut_long(self._rest_of(start), end, 0)
        self._cut = None
        if end > start:
            self._split([(start, end)])
            self._regions.append((start, end))

    def no_speech_before(self, window: int) -> None:
        """No region is open, and the next one does not start before `window`."""
        if self._regions and window - self._regions[-1][1] >= self._lengths.max_gap:
            self._finalise(len(self._regions), None)

    def finish(self) -> None:
        self._finalise(len(self._regions), None)

    def _rest_of(self, start: int) -> int:
        """Start of the uncut rest of a region; settles what a long pause separates from it."""
        start = start if self._cut is None else self._cut
        if self._regions and start - self._regions[-1][1] >= self._lengths.max_gap:
            self._finalise(len(self._regions), start)
        return start

    def _split(self, coming: list[Range]) -> None:
        """Settle utterances until the rest, together with `coming`, is short enough."""
        lengths = self._lengths
        while self._regions:
            regions = self._regions + coming
            begin = regions[0][0]
            if regions[-1][1] - begin <= lengths.split_above:
                return
            pauses = range(1, len(regions))
            fair = [k for k in pauses if self._is_fair(regions, k)]
            if not fair:
                # Better join a scrap than leave it alone; `_cut_long` bounds the result.
                last_is_scrap = regions[-1][1] - regions[-1][0] < lengths.shortest
                if self._is_scrap() or (
                    last_is_scrap and regions[-1][1] - begin <= lengths.longest
                ):
                    return
            best = max(
                fair or [len(regions) - 1], key=lambda k: (regions[k][0] - regions[k - 1][1], k)
            )
            self._finalise(best, regions[best][0])

    def _is_fair(self, regions: list[Range], k: int) -> bool:
        """Whether a split before region `k` leaves no scrap and about the target length."""
        lengths = self._lengths
        first = regions[k - 1][1] - regions[0][0]
        rest = regions[-1][1] - regions[k][0]
        return min(first, rest) >= lengths.shortest and (
            lengths.target // 2 <= first <= lengths.split_above
            or (first < lengths.target // 2 and k == len(regions) - 1)
        )

    def _cut_long(self, start: int, end: int, spare: int) -> int:
        """Cut utterances off a region until `longest` plus `spare` is left; start of the rest."""
        lengths = self._lengths
        while True:
            # A scrap before the region becomes part of its first utterance.
            begin = self._regions[0][0] if self._is_scrap() else start
            if end - begin <= lengths.longest + spare:
                return start
            if begin == start:
                self._finalise(len(self._regions), start)
            least = max(min(lengths.target, lengths.longest) // 2, lengths.shortest)
            low = max(begin + least, start + 1)
            high = max(min(begin + lengths.longest, end - lengths.shortest), low)
            stop, start = self._dip(low, high)
            self._regions = [(begin, stop)]
            self._finalise(1, start)
            self._cut = start

    def _is_scrap(self) -> bool:
        """Whether the utterance under way is too short to stand alone."""
        regions = self._regions
        return bool(regions) and regions[-1][1] - regions[0][0] < self._lengths.shortest

    def _finalise(self, count: int, next_start: int | None) -> None:
        """Settle the first `count` regions as one utterance."""
        if count:
            self.final.append((self._regions[0][0], self._regions[count - 1][1], next_start))
            del self._regions[:count]
