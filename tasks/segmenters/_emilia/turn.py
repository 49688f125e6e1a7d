"""Split one speaker turn into pieces as Emilia-Pipe does.

In: the samples of a turn. Out: `Piece`s, in native samples of the recording.

1. A turn of up to 20 s is one piece. 2. In a longer turn, speech is detected with a fresh model
state and grouped at the largest gaps into pieces shorter than 20 s. 3. A speech region without a
gap that reaches `max_seconds` is cut every `max_seconds`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tasks.audio.channels import Heard
from tasks.base.arrays import RATE, Float32s
from tasks.segmenters._emilia.largest_gap import LargestGapSplitter
from tasks.segmenters._emilia.silero_timestamps import SileroTimestamps
from tasks.segmenters._speech_settings import SpeechSettings
from tasks.speech import silero as _silero

SHORT_TURN_SECONDS = 20.0  # a turn up to this long stays whole; pieces of longer ones are shorter


@dataclass(slots=True)
class Piece:
    """Samples `start` to `end` of a recording; `turn` is the index of the given segment.

    `whole`: it is exactly the turn. `cut`: it was cut from a longer speech region, so it is not
    merged into the piece before it.
    """

    start: int
    end: int
    turn: int | None
    speaker: str | None
    whole: bool = False
    cut: bool = False


class Turn:
    """Takes the samples of a recording from `start` to `end` (infinite: to its end).

    `final` collects final pieces; the caller empties it. Holds the detector's state and 16 s of
    audio at 16 kHz, the detector's batch.
    """

    def __init__(
        self,
        settings: SpeechSettings,
        rate: int,
        start: int,
        end: float,
        index: int | None = None,
        speaker: str | None = None,
    ) -> None:
        self.start, self.end = start, end
        self.index, self.speaker = index, speaker
        self.final: list[Piece] = []
        self.finished = False
        self._held: list[Piece] = []  # while the turn may prove to be short, and stay whole
        self._rate = rate
        self._max_length = int(settings.max_seconds * RATE)
        self._pushed = 0  # samples
        self._last_cut: int | None = None  # inside the open speech region, at 16 kHz
        self._ear = Heard(np.float32)
        self._model: _silero.Probabilities | None = None
        self._timestamps = SileroTimestamps(settings)
        self._splitter = LargestGapSplitter(int(SHORT_TURN_SECONDS * RATE))

    @property
    def earliest_pending(self) -> int:
        """No piece that the caller has not consumed yet starts before this sample of the
        recording."""
        if self.final:
            return self.final[0].start
        if self._is_short(self.start + self._pushed):  # it may end here, and stay whole
            return self.start
        start = self._pending_start()
        return self._native(self._timestamps.earliest_pending if start is None else start)

    def push(self, samples: Float32s) -> None:
        """The next samples of the turn, float32 [n, channels]."""
        self._pushed += len(samples)
        if self._is_short(self.end):
            return
        if self._model is None:
            self._model = _silero.Probabilities(self._rate)
        self._detect(self._model.push(self._ear.push(samples)[:, None]))
        if not self._is_short(self.start + self._pushed):
            self._release()

    def finish(self, count: int) -> None:
        """The turn was pushed to its end, or the recording ended after `count` samples."""
        self.finished = True
        self.end = end = int(min(self.end, count))
        length = (end - self.start) * RATE // self._rate
        if self._is_short(end):
            self._held.clear()
            if length >= self._max_length:  # possible only if max_seconds is 20 or less
                self._cut_evenly(0, length, cut=False)
            elif end > self.start:
                self._held.append(Piece(self.start, end, self.index, self.speaker, whole=True))
            self._release()
            return
        assert self._model is not None
        self._timestamps.length = length
        self._detect(self._model.push(self._ear.finish()[:, None]))
        self._detect(self._model.finish())
        self._timestamps.finish()
        self._group_regions()
        self._splitter.finish()
        self._take_groups()
        self._release()

    def _release(self) -> None:
        self.final += self._held
        self._held.clear()

    def _is_short(self, end: float) -> bool:
        return end - self.start <= SHORT_TURN_SECONDS * self._rate

    def _detect(self, probabilities: Float32s) -> None:
        timestamps, splitter = self._timestamps, self._splitter
        for value in probabilities.tolist():
            timestamps.push(value)
            self._group_regions()
            if timestamps.open_start is None:
                splitter.no_speech_before(timestamps.earliest_pending)
                self._take_groups()
            else:
                self._begin_region(timestamps.open_start)
                splitter.region_reaches(timestamps.open_until)
                self._take_groups()
                self._cut_open_region(timestamps.open_until)

    def _begin_region(self, start: int) -> None:
        if not self._splitter.is_open:
            self._splitter.region_begins(start)

    def _group_regions(self) -> None:
        """Pass the final speech regions on to the splitter."""
        for start, end in self._timestamps.final:
            self._begin_region(start)
            self._splitter.region_ends(end)
        self._timestamps.final.clear()

    def _take_groups(self) -> None:
        """Turn the splitter's groups into pieces."""
        for start, end in self._splitter.final:
            cut, self._last_cut = self._last_cut, None
            self._cut_evenly(start if cut is None else cut, end, cut is not None)
        self._splitter.final.clear()

    def _cut_evenly(self, start: int, end: int, cut: bool) -> None:
        """Pieces of exactly the longest length, then the rest, whatever its length."""
        while end - start >= self._max_length:
            cut = True
            self._hold(start, start + self._max_length, cut)
            start += self._max_length
        self._hold(start, end, cut)

    def _cut_open_region(self, until: int) -> None:
        """The same cuts while a region is still open, so that its samples can be released."""
        start = self._pending_start()
        while start is not None and until - start >= self._max_length:
            self._hold(start, start + self._max_length, True)
            start = self._last_cut = start + self._max_length

    def _pending_start(self) -> int | None:
        return self._splitter.pending_start if self._last_cut is None else self._last_cut

    def _hold(self, start: int, end: int, cut: bool) -> None:
        bounds = self._native(start), self._native(end)
        self._held.append(Piece(*bounds, self.index, self.speaker, cut=cut))

    def _native(self, position: int) -> int:
        """A position in the turn at 16 kHz as a sample of the recording."""
        place = self.start + position * self._rate // RATE
        return place if math.isinf(self.end) else min(place, int(self.end))
