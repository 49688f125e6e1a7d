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

from ...audio.channels import Heard
from ...base.arrays import RATE, Float32s
from ...speech import silero as _silero
from ...speech.silero import WINDOW
from .._speech_settings import SpeechSettings

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
        self._held: list[Piece] = []  # as long as the turn may still be short, and stay whole
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


# Group speech regions into pieces shorter than a limit by splitting at the largest gaps.
#
# In: speech regions in order. Out: pieces (start, end), in the same unit. The rule of Emilia-Pipe
# is recursive: a group of regions that is not shorter than the limit is split at its largest gap
# (the first of equal ones), and so is each part. A single region stays whole.
#
# Streaming works because a gap splits if and only if the speech between the next larger gaps on
# its left and right is not shorter than the limit. So each gap is decided within one limit's
# length, and only undecided gaps are kept, each smaller than the one before it.


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


# Speech regions by the rules of Silero's `get_speech_timestamps`, computed in a stream.
#
# In: one probability per 32 ms window. Out: regions as (start, end) in samples at 16 kHz.
#
# 1. Hysteresis between `threshold` and `neg_threshold`, with pauses of `min_silence_ms`.
# 2. A region that is not longer than `min_speech_ms` is dropped.
# 3. Both ends are padded by `speech_pad_ms`; two pads that would meet share the pause equally.
#
# Silero VAD 5 and 6 apply these rules to the whole recording; the regions here are the same.


class SileroTimestamps:
    """`final` collects final regions in order; the caller empties it."""

    def __init__(self, settings: SpeechSettings) -> None:
        self._hysteresis = settings.hysteresis()
        self._min_speech = settings.min_speech_ms * RATE // 1000
        self._pad = settings.speech_pad_ms * RATE // 1000
        self.final: list[tuple[int, int]] = []
        #: Padded start of the open region, once it is long enough to count.
        self.open_start: int | None = None
        #: Samples of the audio, if known; to be set before the last window is pushed.
        self.length: int | None = None
        self._at = 0  # samples seen
        self._last: tuple[int, int] | None = None  # last region: start padded, end not yet

    @property
    def open_until(self) -> int:
        """The open region lasts at least up to this sample."""
        pause = self._hysteresis.pause
        if pause is not None:
            return pause * WINDOW
        return self._at if self.length is None else min(self._at, self.length)

    @property
    def earliest_pending(self) -> int:
        """No region that is not yet in `final` starts before this sample."""
        if self.open_start is not None:
            return self.open_start
        if self._last is not None:
            return self._last[0]
        start = self._hysteresis.start
        return max((self._at if start is None else start * WINDOW) - self._pad, 0)

    def push(self, probability: float) -> None:
        """Take the next window."""
        region = self._hysteresis.push(probability)
        if region is not None:
            self._close(region[0] * WINDOW, region[1] * WINDOW)
        self._at += WINDOW
        start = self._hysteresis.start
        if start is None:
            self._settle_after_pause()
        elif self.open_start is None and self.open_until - start * WINDOW > self._min_speech:
            self._open(start * WINDOW)

    def finish(self) -> None:
        """The audio ended after `length` samples; speech that is still open ends there."""
        length = self._at if self.length is None else self.length
        region = self._hysteresis.finish()
        if region is not None:
            self._close(region[0] * WINDOW, length)
        if self._last is not None:
            start, end = self._last
            self.final.append((start, min(end + self._pad, length)))
            self._last = None
        self._at = length

    def _close(self, start: int, end: int) -> None:
        if end - start > self._min_speech:
            if self.open_start is None:
                self._open(start)
            assert self.open_start is not None
            self._last = (self.open_start, end)
        self.open_start = None

    def _open(self, start: int) -> None:
        """Accept a region: pad its start, and settle the previous one."""
        pad = self._pad
        if self._last is not None:
            last_start, last_end = self._last
            pause = start - last_end
            pad = pad if pause >= 2 * pad else pause // 2
            self.final.append((last_start, last_end + pad))
            self._last = None
        self.open_start = max(start - pad, 0)

    def _settle_after_pause(self) -> None:
        """After a pause of two pads, the end of the last region no longer depends on the next."""
        if self._last is not None and self._at - self._last[1] >= 2 * self._pad:
            start, end = self._last
            self.final.append((start, end + self._pad))
            self._last = None
