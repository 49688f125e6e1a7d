"""The source's own segments; the audio between them is `unsegmented`.

A segment longer than `max_seconds` whose words have times is cut between words, at sentence ends
if there are any (`_sentences.py`); each piece has the text of its words. Others stay whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise

from pydantic import Field

from tasks.arrays import Float32s
from tasks.recording import Segment, part_texts
from tasks.segmenters import Span, _sentences
from tasks.settings import StageSettings

VERSION = 1


class Settings(StageSettings):
    """Up to which length segments with word times stay whole."""

    target_seconds: float = Field(
        10.0,
        ge=0.5,
        le=3600,
        description="Length of the pieces of a segment that is cut, s, about.",
    )
    max_seconds: float = Field(
        30.0, ge=1, le=3600, description="Longest segment that is left whole, s, and longest piece."
    )


class Given:
    """Gives each utterance as soon as its end is decoded, and the gaps at the end.

    Segments may overlap and come in any order. One that ends beyond the end of the recording ends
    with it, and one that begins there has no samples. `tasks/checkpoints/view.py` fails both as
    `segment_outside_audio`, but for a small excess.
    """

    def __init__(self, settings: Settings, rate: int, given: Sequence[Segment]) -> None:
        self._count = 0
        self._any = bool(given)
        bounds: list[tuple[float, float, int]] = []
        self._cut: set[int] = set()  # segments that are several pieces
        for i, segment in enumerate(given):
            edges = [segment.start, *_cuts(segment, settings), segment.end]
            at = [sample(edge, rate) for edge in edges]
            bounds += [(start, end, i) for start, end in pairwise(at)]
            if len(at) > 2:
                self._cut.add(i)
        # A stack: the earliest end on top, open ends at the bottom.
        self._waiting = sorted(bounds, key=lambda b: (b[1], b[0], b[2]), reverse=True)
        # needed[n]: the earliest start when n segments are still waiting
        self._needed = [0.0]
        for start, _, _ in self._waiting:
            low = start if len(self._needed) == 1 else min(start, self._needed[-1])
            self._needed.append(low)
        self._used: list[tuple[int, int]] = []

    def push(self, block: Float32s) -> list[Span]:
        self._count += len(block)
        ready = []
        while self._waiting and self._waiting[-1][1] <= self._count:
            ready.append(self._finalise())
        return ready

    def finish(self) -> list[Span]:
        rest = [self._finalise() for _ in range(len(self._waiting))]
        reason = "outside_segments" if self._any else "no_segments"
        gaps = complement(self._used, self._count)
        return rest + [Span(a, b, "unsegmented", reason=reason) for a, b in gaps]

    @property
    def needed_from(self) -> int:
        if not self._waiting:
            return self._count
        return int(min(self._needed[len(self._waiting)], self._count))

    def _finalise(self) -> Span:
        first, last, index = self._waiting.pop()
        start = int(min(first, self._count))
        end = int(min(last, self._count))
        end = max(start, end)
        if end > start:
            if self._used and start <= self._used[-1][1] and start >= self._used[-1][0]:
                self._used[-1] = (self._used[-1][0], max(end, self._used[-1][1]))
            else:
                self._used.append((start, end))
        if index in self._cut:
            return Span(start, end, turn=index)
        return Span(start, end, given=index)


def _cuts(segment: Segment, settings: Settings) -> list[float]:
    words = part_texts.spelled(segment)
    if not words:
        return []
    end = words[-1].end if segment.end is None else segment.end
    target, longest = settings.target_seconds, settings.max_seconds
    return _sentences.cuts(words, segment.start, end, min(target, longest), longest)


def sample(seconds: float | None, rate: int) -> float:
    """Seconds to samples, halves rounded up; None and infinite seconds to infinity."""
    if seconds is None or not math.isfinite(seconds * rate):
        return math.inf
    return max(math.floor(seconds * rate + 0.5), 0)


def complement(used: list[tuple[int, int]], count: int) -> list[tuple[int, int]]:
    """The parts of [0, count) outside of all ranges in `used`, in order."""
    gaps, at = [], 0
    for start, end in sorted(used):
        if start > at:
            gaps.append((at, start))
        at = max(at, end)
    if at < count:
        gaps.append((at, count))
    return gaps


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Given:
    return Given(settings, rate, given)
