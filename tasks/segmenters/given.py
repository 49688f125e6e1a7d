"""The source's own segments; the audio between them is `unsegmented`.

A segment longer than `max_seconds` whose words have times is cut between words, at sentence ends
if there are any (`_sentences.py`); each piece has the text of its words. Others stay whole.

Captions are shown about when their words are said: their edges, and such cuts, are moved to pauses
that the voice detector hears.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

from pydantic import Field

from ..base.arrays import RATE, Float32s
from ..recording import Segment, TimedWord, turns
from ..settings import StageSettings
from ..speech.silero import WINDOW, Probabilities
from ..speech.silero import identity as identity
from . import KnownSpans, Span, _sentences
from ._detector import SpeechDetector, SpeechSettings, levels

VERSION = 2
LISTENS = True
FAR = 1 << 60  # samples: beyond the end of any recording


class Settings(StageSettings):
    target_seconds: float = Field(
        10.0,
        ge=0.5,
        le=3600,
        description="Length of the pieces of a segment that is cut, s, about.",
    )
    max_seconds: float = Field(
        30.0, ge=1, le=3600, description="Longest segment that is left whole, s, and longest piece."
    )
    caption_shift_ms: int = Field(
        500,
        ge=0,
        le=5000,
        description="How far an edge of a caption made by hand may move to a pause, ms; "
        "0: not at all.",
    )


class Given(KnownSpans):
    """Gives each utterance as soon as its end is decoded, and the gaps at the end.

    Segments may overlap and come in any order. One that ends beyond the end of the recording ends
    with it, and one that begins there has no samples. `tasks.shard_store.shard_view` fails both
    as `segment_outside_audio`, but for a small excess.
    """

    def __init__(self, settings: Settings, rate: int, given: Sequence[Segment]) -> None:
        self._spans = [
            span
            for index, segment in enumerate(given)
            for span in _spans(index, segment, settings, rate, None)
        ]
        super().__init__(sorted(self._spans, key=lambda span: (span.end, span.start)))

    def finish(self) -> list[Span]:
        rest = [self._within(span) for span in super().finish()]
        used = [(span.start, span.end) for span in map(self._within, self._spans)]
        reason = "outside_segments" if self._spans else "no_segments"
        gaps = complement([span for span in used if span[0] < span[1]], self.at)
        return rest + [Span(a, b, "unsegmented", reason=reason) for a, b in gaps]

    def _within(self, span: Span) -> Span:
        return replace(span, start=min(span.start, self.at), end=min(span.end, self.at))


class Captions(Given):
    """Gives each utterance once the pauses around its end are known."""

    def __init__(self, settings: Settings, rate: int, given: Sequence[Segment]) -> None:
        super().__init__(settings, rate, ())
        self._settings, self._rate, self._given = settings, rate, given
        self._reach = settings.caption_shift_ms / 1000  # at most
        self._pauses = Pauses(rate)
        ends = [math.inf if segment.end is None else segment.end for segment in given]
        self._order = sorted(range(len(given)), key=lambda index: ends[index])[::-1]  # a stack

    def push(self, block: Float32s) -> list[Span]:
        self.at += len(block)
        self._pauses.push(block)
        return self._ready(self._pauses.until - self._reach)

    def finish(self) -> list[Span]:
        self._pauses.finish(self.at / self._rate)
        self._waiting = self._ready(math.inf)[::-1]
        return super().finish()

    def _ready(self, until: float) -> list[Span]:
        """The utterances of the segments that end by then, s."""
        ready: list[Span] = []
        while self._order:
            segment = self._given[self._order[-1]]
            if until < math.inf and (segment.end is None or segment.end > until):
                break
            index = self._order.pop()
            ready += _spans(index, segment, self._settings, self._rate, self._pauses)
        self._spans += ready
        return ready

    @property
    def needed_from(self) -> int:
        if not self._order:
            return self.at
        earliest = min(self._given[index].start for index in self._order) - self._reach - PAD
        return min(int(sample(earliest, self._rate)), self.at)


def _spans(
    index: int, segment: Segment, settings: Settings, rate: int, pauses: Pauses | None
) -> list[Span]:
    """The utterances of a segment: one, or the pieces of a long one whose words have times."""
    words: Sequence[TimedWord] = turns.spelled(segment)
    start, end = segment.start, math.inf if segment.end is None else segment.end
    if pauses is not None:
        reach = min(settings.caption_shift_ms / 1000, segment.rough)
        start, end = pauses.edges(segment, words, reach)
        words = pauses.between(words, reach)
    cuts: list[float] = []
    if words:
        target, longest = settings.target_seconds, settings.max_seconds
        last = words[-1].end if end == math.inf else end
        cuts = _sentences.cuts(words, start, last, min(target, longest), longest)
    samples = [int(min(sample(edge, rate), FAR)) for edge in (start, *cuts, end)]
    whole, part = (None, index) if cuts else (index, None)
    return [Span(a, max(a, b), given=whole, turn=part) for a, b in pairwise(samples)]


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
    if settings.caption_shift_ms and any(segment.rough for segment in given):
        return Captions(settings, rate, given)
    return Given(settings, rate, given)


# A caption is shown about when its words are said, so its edges often cut a word. An edge moves to
# the nearest pause within reach that the voice detector hears; without one it stays.

PAD = 0.1  # s of a pause that stay with the speech beside it
LEAST_MS = 200  # shorter pauses may be within a word, or a sentence

Pause = tuple[float, float]  # s of the recording


class Pauses:
    """The pauses of a stream, in order. `until`: what lies before, s, is known."""

    def __init__(self, rate: int) -> None:
        self.until = 0.0
        self._model = Probabilities(rate)
        self._detector = SpeechDetector(SpeechSettings(min_silence_ms=LEAST_MS))
        self._begin, self._end = [0.0], list[float]()  # of each pause; the last may be open

    def push(self, block: Float32s) -> None:
        self._advance(self._model.push(block))

    def finish(self, seconds: float) -> None:
        self._advance(self._model.finish())
        self._detector.finish()
        self._take()
        self.until = seconds

    def _advance(self, probabilities: Float32s) -> None:
        windows = self._model.windows
        heard = probabilities.tolist(), levels(windows).tolist(), windows
        for probability, level, samples in zip(*heard, strict=True):
            self._detector.push(probability, level, samples)
        self._take()

    def _take(self) -> None:
        for start, end in self._detector.final:
            self._end.append(start * WINDOW / RATE)
            self._begin.append(end * WINDOW / RATE)
        self._detector.final.clear()
        self.until = max(self._detector.earliest_pending * WINDOW / RATE, self._begin[-1])

    def near(self, seconds: float, reach: float) -> Pause | None:
        """The pause nearest to a time, if it is within reach."""
        after = bisect_left(self._end, seconds)  # the first that ends then or later
        ends = [*self._end[max(after - 1, 0) : after + 1], self.until]
        nearest = min(
            zip(self._begin[max(after - 1, 0) : after + 1], ends, strict=False),
            key=lambda pause: _distance(pause, seconds),
        )
        return nearest if _distance(nearest, seconds) <= reach else None

    def edges(
        self, segment: Segment, words: Sequence[TimedWord], reach: float
    ) -> tuple[float, float]:
        """Where a segment begins and ends, s. Neither edge passes the middle of a word, or of the
        segment if its words have no times."""
        start, end = segment.start, math.inf if segment.end is None else segment.end
        first, last = (words[0], words[-1]) if words else (None, None)
        middle = (start + end) / 2
        latest = (first.start + first.end) / 2 if first else middle
        earliest = (last.start + last.end) / 2 if last else middle
        if (pause := self.near(start, reach)) and not pause[0] <= start <= pause[1]:
            moved = max(pause[1] - PAD, sum(pause) / 2)
            start = moved if moved <= latest else start
        if end < math.inf and (pause := self.near(end, reach)) and not pause[0] <= end <= pause[1]:
            moved = min(pause[0] + PAD, sum(pause) / 2)
            end = moved if moved >= earliest else end
        return start, end

    def between(self, words: Sequence[TimedWord], reach: float) -> tuple[TimedWord, ...]:
        """The words with the pauses between them. A pause lies between the two words whose border
        is nearest; the others follow each other at once."""
        borders = [(one.end + other.start) / 2 for one, other in pairwise(words)]
        nearest: dict[Pause, int] = {}
        for n, border in enumerate(borders):
            if pause := self.near(border, reach):
                rival = borders[nearest.get(pause, n)]
                if abs(border - sum(pause) / 2) <= abs(rival - sum(pause) / 2):
                    nearest[pause] = n
        gaps = {n: pause for pause, n in nearest.items()}
        lows = [gaps.get(n, (border, border))[0] for n, border in enumerate(borders)]
        highs = [gaps.get(n, (border, border))[1] for n, border in enumerate(borders)]
        begins = [words[0].start, *highs] if words else []
        ends = [*lows, words[-1].end] if words else []
        return tuple(
            replace(word, start=low, end=high)
            for word, low, high in zip(words, begins, ends, strict=True)
        )


def _distance(pause: Pause, seconds: float) -> float:
    return max(pause[0] - seconds, seconds - pause[1], 0.0)
