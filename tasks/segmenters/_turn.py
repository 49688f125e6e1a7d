"""One speaker turn of a recording, divided as Emilia-Pipe does it.

A turn of up to 20 s is one piece as it stands. A longer one is searched for speech on its own, the
detector starting anew with it, and divided at the largest gaps until every piece is shorter than
20 s; a stretch of speech without a gap that reaches 30 s is cut every 30 s.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tasks.segmenters._largest_gap import LargestGap
from tasks.segmenters._speech import Limits, Stretches
from tasks.speech import silero as _silero
from tasks.speech.silero import RATE

AS_IT_IS_SECONDS = 20.0  # no longer turn is kept as it is, and a piece of one is shorter


@dataclass(slots=True)
class Piece:
    """Samples of a recording; `turn` is the index of the given segment that they belong to.

    `whole`: it is exactly the turn. `alone`: it was cut from a longer stretch, and is not joined to
    what lies before it.
    """

    start: int
    end: int
    turn: int | None
    speaker: str | None
    whole: bool = False
    alone: bool = False


class Turn:
    """Takes the samples of a recording from `start` to `end` (infinite: to its end).

    `pieces` gathers what is settled; whoever uses them empties it. Of the audio it holds what the
    detector needs for its next batch, 16 s at 16 kHz.
    """

    def __init__(
        self, limits: Limits, longest: float, rate: int, start: int, end: float,
        index: int | None = None, speaker: str | None = None,
    ) -> None:  # fmt: skip
        self.start, self.end = start, end
        self.index, self.speaker = index, speaker
        self.pieces: list[Piece] = []
        self._held: list[Piece] = []
        self._rate = rate
        self._step = int(longest * RATE)
        self._pushed = 0  # samples
        self._cut_at: int | None = None  # where the last cut of a stretch of `longest` fell
        self._model: _silero.Probabilities | None = None
        self._stretches = Stretches(limits)
        self._groups = LargestGap(int(AS_IT_IS_SECONDS * RATE))

    @property
    def low(self) -> int:
        """First sample of the recording that a piece still to come may hold."""
        if self.pieces:
            return self.pieces[0].start
        if self._short(self.start + self._pushed):  # it may prove to end here
            return self.start
        begun = self._groups.begun if self._cut_at is None else self._cut_at
        return self._native(self._stretches.low if begun is None else begun)

    def push(self, samples: NDArray[np.float32]) -> None:
        """The next samples of the turn, float32 [n, channels]."""
        self._pushed += len(samples)
        if self._short(self.end):
            return
        if self._model is None:
            self._model = _silero.Probabilities(self._rate)
        self._advance(self._model.push(samples))
        if not self._short(self.start + self._pushed):  # else it may prove to end here, whole
            self._hand_out()

    def finish(self, count: int) -> None:
        """The turn was pushed to its end, or the recording ended after `count` samples."""
        self.end = end = int(min(self.end, count))
        length = (end - self.start) * RATE // self._rate
        if self._short(end):
            self._held.clear()
            if length >= self._step:  # only where `longest` is set to 20 s or less
                self._divide(0, length, alone=False)
            elif end > self.start:
                self._add(self.start, end, whole=True)
            self._hand_out()
            return
        assert self._model is not None
        self._stretches.length = length
        self._advance(self._model.finish())
        self._stretches.finish()
        self._take_ended()
        self._groups.finish()
        self._take_pieces()
        self._hand_out()

    def _hand_out(self) -> None:
        self.pieces += self._held
        self._held.clear()

    def _short(self, end: float) -> bool:
        return end - self.start <= AS_IT_IS_SECONDS * self._rate

    def _advance(self, probabilities: NDArray[np.float32]) -> None:
        stretches, groups = self._stretches, self._groups
        for value in probabilities.tolist():
            stretches.window(value)
            self._take_ended()
            if stretches.started is None:
                groups.silent(stretches.low)
                self._take_pieces()
            else:
                self._open(stretches.started)
                groups.reaches(stretches.reached)
                self._take_pieces()
                self._cut_long(stretches.reached)

    def _open(self, start: int) -> None:
        """Tell of a stretch once."""
        if not self._groups.is_open:
            self._groups.begins(start)

    def _take_ended(self) -> None:
        for start, end in self._stretches.ended:
            self._open(start)
            self._groups.ends(end)
        self._stretches.ended.clear()

    def _take_pieces(self) -> None:
        for start, end in self._groups.pieces:
            cut = self._cut_at
            self._cut_at = None
            self._divide(start if cut is None else cut, end, cut is not None)
        self._groups.pieces.clear()

    def _divide(self, start: int, end: int, alone: bool) -> None:
        """Cut a piece of `longest` or more in steps of it; the rest may be of any length."""
        while end - start >= self._step:
            alone = True
            self._piece(start, start + self._step, alone)
            start += self._step
        self._piece(start, end, alone)

    def _cut_long(self, reached: int) -> None:
        """The same while a stretch is still open, so that its samples can be let go."""
        start = self._groups.begun if self._cut_at is None else self._cut_at
        while start is not None and reached - start >= self._step:
            self._piece(start, start + self._step, True)
            start = self._cut_at = start + self._step

    def _piece(self, start: int, end: int, alone: bool) -> None:
        self._add(self._native(start), self._native(end), alone=alone)

    def _add(self, start: int, end: int, whole: bool = False, alone: bool = False) -> None:
        self._held.append(Piece(start, end, self.index, self.speaker, whole, alone))

    def _native(self, position: int) -> int:
        """A position in the turn at 16 kHz as a sample of the recording."""
        place = self.start + position * self._rate // RATE
        return place if math.isinf(self.end) else min(place, int(self.end))
