"""The source's own segments; the audio between them is `unsegmented`.

A segment longer than `max_seconds` whose words have times is cut between words, at sentence ends
if there are any (`_sentences.py`); each piece has the text of its words. Others stay whole.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from pydantic import Field

from ..recording import Segment, part_texts
from ..settings import StageSettings
from . import KnownSpans, Span, _sentences

VERSION = 1
FAR = 1 << 60  # samples: beyond the end of any recording


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


class Given(KnownSpans):
    """Gives each utterance as soon as its end is decoded, and the gaps at the end.

    Segments may overlap and come in any order. One that ends beyond the end of the recording ends
    with it, and one that begins there has no samples. `tasks.shard_store.shard_view` fails both
    as `segment_outside_audio`, but for a small excess.
    """

    def __init__(self, settings: Settings, rate: int, given: Sequence[Segment]) -> None:
        self._spans: list[Span] = []
        for i, segment in enumerate(given):
            edges = [segment.start, *_cuts(segment, settings), segment.end]
            samples = [int(min(sample(edge, rate), FAR)) for edge in edges]
            whole, part = (i, None) if len(samples) == 2 else (None, i)
            for start, end in pairwise(samples):
                self._spans.append(Span(start, max(start, end), given=whole, turn=part))
        super().__init__(sorted(self._spans, key=lambda span: (span.end, span.start)))

    def finish(self) -> list[Span]:
        rest = [self._within(span) for span in super().finish()]
        used = [(span.start, span.end) for span in map(self._within, self._spans)]
        reason = "outside_segments" if self._spans else "no_segments"
        gaps = complement([span for span in used if span[0] < span[1]], self.at)
        return rest + [Span(a, b, "unsegmented", reason=reason) for a, b in gaps]

    def _within(self, span: Span) -> Span:
        """As much of a span as the recording has."""
        return replace(span, start=min(span.start, self.at), end=min(span.end, self.at))


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
    gaps, covered = [], 0
    for start, end in sorted(used):
        if start > covered:
            gaps.append((covered, start))
        covered = max(covered, end)
    if covered < count:
        gaps.append((covered, count))
    return gaps


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Given:
    return Given(settings, rate, given)
