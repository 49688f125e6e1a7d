"""Utterances by voice detection: find speech, join it over short pauses, split long stretches.

`_detector.py` finds speech regions; `UtteranceBuilder` makes utterances of them. Speech without a
pause for longer than `max_seconds` is cut at its longest dip, or where speech is least certain.
One pass; memory for about `max_seconds` + 20 s, whatever the length of the recording.

With `merge: emilia`, the rules of Emilia-Pipe apply instead (`_emilia.py`).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Literal

import numpy as np
from pydantic import Field, model_validator

from ..base.arrays import RATE, Float32s
from ..recording import Segment
from ..recording.turns import Voices
from ..speech.silero import WINDOW, Probabilities
from ..speech.silero import identity as identity
from . import Cover, Segmenter, Span
from ._at_turns import AtTurns, stretches
from ._detector import SpeechDetector, SpeechSettings, levels
from ._emilia import EmiliaSegmenter

VERSION = 4
LISTENS = True
#: Defaults of `merge: emilia`, those of Emilia-Pipe and Silero.
EMILIA = {"min_seconds": 3.0, "max_gap_seconds": 2.0, "min_speech_ms": 250, "speech_pad_ms": 30}


class Settings(SpeechSettings):
    merge: Literal["default", "emilia"] = Field(
        "default",
        description="emilia: the rules of Emilia-Pipe on speaker turns, the source's or a "
        "diarizer's, which have no target_seconds; min_seconds is then 3, max_gap_seconds 2, "
        "min_speech_ms 250 and speech_pad_ms 30, unless they are set.",
    )

    @model_validator(mode="before")
    @classmethod
    def _of_emilia(cls, data: object) -> object:
        if isinstance(data, dict) and data.get("merge") == "emilia":
            return {**EMILIA, **data}
        return data


def uses_speakers(settings: Settings) -> bool:
    return settings.merge == "emilia"


class Vad(Cover):
    """Positions are windows of 32 ms inside, and native samples in the spans."""

    def __init__(self, settings: SpeechSettings, rate: int) -> None:
        super().__init__()
        self._settings, self._rate = settings, rate
        self._model = Probabilities(rate)
        self._detector = SpeechDetector(settings)
        self._pad = settings.speech_pad_ms * RATE // 1000  # samples at 16 kHz
        longest = (int(settings.max_seconds * RATE) - 2 * self._pad) // WINDOW
        self._builder = UtteranceBuilder(
            shortest=max(-(-int(settings.min_seconds * RATE) // WINDOW), 1),
            target=max(min(int(settings.target_seconds * RATE) // WINDOW, longest), 1),
            longest=longest,
            max_gap=int(settings.max_gap_seconds * RATE) // WINDOW,
            dip=self._dip,
        )
        self._count = 0  # native samples pushed
        self._probs: list[float] = []  # of the windows from `_first` on
        self._first = 0

    def push(self, block: Float32s) -> list[Span]:
        self._count += len(block)
        self._advance(self._model.push(block))
        keep = self._earliest()
        del self._probs[: keep - self._first]
        self._first = keep
        return self.take()

    def finish(self) -> list[Span]:
        self._advance(self._model.finish())
        self._detector.finish()
        self._build()
        self._builder.finish()
        self._finalise()
        self.cover(self._count, "non_speech")
        return self.take()

    @property
    def needed_from(self) -> int:
        """Runs ahead of the spans in a long silence, as non-speech needs no samples."""
        return max(self.done, self._native(self._earliest() * WINDOW - self._pad))

    def _earliest(self) -> int:
        start = self._builder.pending_start
        return self._detector.earliest_pending if start is None else start

    def _advance(self, probs: Float32s) -> None:
        windows = self._model.windows
        for value, level, samples in zip(
            probs.tolist(), levels(windows).tolist(), windows, strict=True
        ):
            self._probs.append(value)
            self._detector.push(value, level, samples)
            self._build()

    def _build(self) -> None:
        """Pass on what the last window made final."""
        detector, builder = self._detector, self._builder
        for start, end in detector.final:
            builder.region_ended(start, end)
        detector.final.clear()
        if detector.open_start is not None:
            builder.region_reaches(detector.open_start, detector.open_until)
        else:
            builder.no_speech_before(detector.earliest_pending)
        self._finalise()

    def _dip(self, low: int, high: int) -> tuple[int, int]:
        """The best cut in windows [low, high) as (end, next start): the longest run of windows
        below `neg_threshold` (the last of equal ones), else the least certain window."""
        probs = np.array(self._probs[low - self._first : high - self._first + 1])
        quiet = np.flatnonzero(np.diff(np.r_[0, probs < self._settings.neg_threshold, 0]))
        if len(quiet):
            dips = quiet.reshape(-1, 2)
            best = dips[::-1][np.argmax((dips[:, 1] - dips[:, 0])[::-1])]
            return low + int(best[0]), low + int(best[1])
        smooth = np.convolve(np.pad(probs, 1, mode="edge"), np.ones(3) / 3, mode="valid")
        where = low + int(np.argmin(smooth))
        return where, where

    def _finalise(self) -> None:
        """Spans of the final utterances, padded; two pads that would meet share the pause."""
        for first, last, next_start in self._builder.final:
            start, end = first * WINDOW, last * WINDOW
            stop = end + self._pad
            if next_start is not None:
                stop = min(stop, (end + next_start * WINDOW) // 2)
            self.cover(self._native(start - self._pad), "non_speech")
            stop = max(self._native(stop), self.done)
            if stop - self.done < self._settings.min_seconds * self._rate:
                self.cover(stop, "unsegmented", "below_min_seconds")
            else:
                self.cover(stop)
        self._builder.final.clear()

    def _native(self, position: int) -> int:
        return min(max(position * self._rate // RATE, 0), self._count)


def at_turns(
    settings: SpeechSettings, rate: int, given: Sequence[Segment], voices: Voices
) -> Segmenter:
    """With `merge: emilia`, the source's segments are the turns if there are any."""
    emilia = isinstance(settings, Settings) and settings.merge == "emilia"
    if (emilia and given) or (not emilia and len({turn.speaker for turn in voices.turns}) < 2):
        return start(settings, rate, given)
    if not emilia:
        return AtTurns(voices, rate, partial(Vad, settings, rate))
    divided = stretches(voices, rate)
    kept = divided.kept
    turns = [Segment(s.start / rate, s.end / rate, speaker=str(s.speaker)) for s in kept]
    if not turns:
        return Vad(settings, rate)
    return EmiliaSegmenter(settings, rate, turns, [s.speaker for s in kept], divided.beside)


def start(settings: SpeechSettings, rate: int, given: Sequence[Segment]) -> Segmenter:
    if isinstance(settings, Settings) and settings.merge == "emilia":
        return EmiliaSegmenter(settings, rate, given)
    return Vad(settings, rate)


# Speech regions to utterances; positions and lengths are windows of 32 ms.
#
# 1. Adjacent regions are joined if the pause between them is shorter than `max_gap`.
# 2. An utterance that grows beyond `SLACK` times the target is split at its longest pause between
#    half the target and that limit, so that a sentence is rarely cut.
# 3. A region without a pause may be longer, up to `longest`; beyond, it is cut at its best dip.
# 4. An utterance shorter than `shortest` joins a neighbour if the limits allow it.

SLACK = 1.25

Range = tuple[int, int]


class UtteranceBuilder:
    """`final` collects (start, end, start of the next speech or None); the caller empties it.

    `dip(low, high)` gives the best cut between two windows: (end, start of the next).
    """

    def __init__(
        self,
        shortest: int,
        target: int,
        longest: int,
        max_gap: int,
        dip: Callable[[int, int], Range],
    ) -> None:
        self._shortest, self._target, self._longest = shortest, target, longest
        self._max_gap, self._dip = max_gap, dip
        self._split_above = min(int(target * SLACK), longest)
        self._regions: list[Range] = []  # of the utterance that may still grow
        self._cut: int | None = None  # last cut inside the open region
        self.final: list[tuple[int, int, int | None]] = []

    @property
    def pending_start(self) -> int | None:
        """Start of the speech not yet in a final utterance."""
        return self._regions[0][0] if self._regions else self._cut

    def region_reaches(self, start: int, until: int) -> None:
        """The region from `start` is still open and lasts at least up to `until`."""
        start = self._cut_long(self._rest_of(start), until, self._shortest)
        self._split([(start, until)])

    def region_ended(self, start: int, end: int) -> None:
        start = self._cut_long(self._rest_of(start), end, 0)
        self._cut = None
        if end > start:
            self._split([(start, end)])
            self._regions.append((start, end))

    def no_speech_before(self, window: int) -> None:
        """No region is open, and the next one does not start before `window`."""
        if self._regions and window - self._regions[-1][1] >= self._max_gap:
            self._finalise(len(self._regions), None)

    def finish(self) -> None:
        self._finalise(len(self._regions), None)

    def _rest_of(self, start: int) -> int:
        """Start of the uncut rest of a region; finalises regions before a long pause."""
        start = start if self._cut is None else self._cut
        if self._regions and start - self._regions[-1][1] >= self._max_gap:
            self._finalise(len(self._regions), start)
        return start

    def _split(self, coming: list[Range]) -> None:
        """Settle utterances until the rest, together with `coming`, is short enough."""
        while self._regions:
            regions = self._regions + coming
            begin = regions[0][0]
            if regions[-1][1] - begin <= self._split_above:
                return
            pauses = range(1, len(regions))
            fair = [k for k in pauses if self._is_fair(regions, k)]
            if not fair:
                # A scrap is joined rather than left alone; `_cut_long` bounds the result.
                last_is_scrap = regions[-1][1] - regions[-1][0] < self._shortest
                if self._is_scrap() or (last_is_scrap and regions[-1][1] - begin <= self._longest):
                    return
            best = max(
                fair or [len(regions) - 1], key=lambda k: (regions[k][0] - regions[k - 1][1], k)
            )
            self._finalise(best, regions[best][0])

    def _is_fair(self, regions: list[Range], k: int) -> bool:
        """Whether a split before region `k` leaves no scrap and about the target length."""
        first = regions[k - 1][1] - regions[0][0]
        rest = regions[-1][1] - regions[k][0]
        return min(first, rest) >= self._shortest and (
            self._target // 2 <= first <= self._split_above
            or (first < self._target // 2 and k == len(regions) - 1)
        )

    def _cut_long(self, start: int, end: int, spare: int) -> int:
        """Cut utterances off a region until `longest` plus `spare` is left; start of the rest."""
        while True:
            # A scrap before the region becomes part of its first utterance.
            begin = self._regions[0][0] if self._is_scrap() else start
            if end - begin <= self._longest + spare:
                return start
            if begin == start:
                self._finalise(len(self._regions), start)
            least = max(min(self._target, self._longest) // 2, self._shortest)
            low = max(begin + least, start + 1)
            high = max(min(begin + self._longest, end - self._shortest), low)
            stop, start = self._dip(low, high)
            self._regions = [(begin, stop)]
            self._finalise(1, start)
            self._cut = start

    def _is_scrap(self) -> bool:
        """Whether the utterance under way is too short to stand alone."""
        regions = self._regions
        return bool(regions) and regions[-1][1] - regions[0][0] < self._shortest

    def _finalise(self, count: int, next_start: int | None) -> None:
        if count:
            self.final.append((self._regions[0][0], self._regions[count - 1][1], next_start))
            del self._regions[:count]
