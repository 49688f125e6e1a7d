"""Moves the edges of captions to the pauses that the voice detector hears.

A caption is shown about when its words are said, so its edges often cut a word. An edge moves to
the nearest pause within reach; without one it stays.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise

import numpy as np

from ..audio.channels import Heard
from ..base.arrays import RATE, Float32s
from ..recording import Segment, TimedWord
from ..speech.silero import WINDOW, Probabilities
from ._detector import SpeechDetector, levels
from ._speech_settings import SpeechSettings

PAD = 0.1  # s of a pause that stay with the speech beside it
LEAST_MS = 200  # shorter pauses may be within a word, or a sentence

Pause = tuple[float, float]  # s of the recording


class Pauses:
    """The pauses of a stream, in order. `until`: what lies before, s, is known."""

    def __init__(self, rate: int) -> None:
        self.until = 0.0
        self._ear, self._model = Heard(np.float32), Probabilities(rate)
        self._detector = SpeechDetector(SpeechSettings(min_silence_ms=LEAST_MS))
        self._begin, self._end = [0.0], list[float]()  # of each pause; the last may be open

    def push(self, block: Float32s) -> None:
        self._advance(self._model.push(self._ear.push(block)[:, None]))

    def finish(self, seconds: float) -> None:
        self._advance(self._model.push(self._ear.finish()[:, None]))
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
