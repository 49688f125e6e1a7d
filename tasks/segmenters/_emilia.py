"""Speaker turns to utterances by the rules of Emilia-Pipe, in one pass.

In: blocks of a recording and the source's segments, which are its speaker turns (without any, the
recording is one turn). Out: spans.

1. Turns keep the source's order; one that ends no later than the turn before it is left out.
2. A turn of up to 20 s is one piece. In a longer one, speech is detected with a fresh model state
   by the rules of Silero's `get_speech_timestamps`, and grouped at the largest gaps into pieces
   shorter than 20 s. A speech region without a gap that reaches `max_seconds` is cut every
   `max_seconds`.
3. A piece shorter than `min_seconds` is merged into the piece before it in the list, if that has
   the same speaker, ends less than `max_gap_seconds` before, and the result is shorter than
   `max_seconds`. Never into the piece after it; a piece of another speaker between them, even a
   dropped one, prevents it.
4. Pieces that are still shorter than `min_seconds` are dropped: `unsegmented`, `below_min_seconds`.

Memory: bounds of spans, and per turn under way the detector's state and 16 s of audio. While turns
overlap, the pieces of the later one wait for the earlier one to end, and so do their samples, which
`tasks/stages/cutting.py` keeps.
"""

import math
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise

from ..base.arrays import RATE, Float32s
from ..recording import Segment
from ..speech.silero import WINDOW, Probabilities
from . import Cover, Kind, Span
from ._detector import SpeechSettings
from .given import FAR, complement, sample

SHORT_TURN_SECONDS = 20  # a turn up to this long stays whole; pieces of longer ones are shorter

Range = tuple[int, int]


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

    `final` collects final pieces; the caller empties it. Positions inside are samples at 16 kHz
    from the start of the turn.
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
        self._rate = rate
        self._longest = int(settings.max_seconds * RATE)
        self._least = settings.min_speech_ms * RATE // 1000
        self._pad = settings.speech_pad_ms * RATE // 1000
        self._pushed = 0  # samples of the recording
        self._model: Probabilities | None = None
        self._hysteresis = settings.hysteresis()
        self._begun, self._until = -1, 0  # the last region that counts, not padded
        self._regions: list[list[int]] = []  # of the piece under way, padded but for the last end
        self._gap = math.inf  # before them
        self._cut: int | None = None  # last cut inside the only region

    @property
    def earliest_pending(self) -> int:
        """No piece that the caller has not consumed yet starts before this sample of the
        recording."""
        if self.final:
            return self.final[0].start
        if self._is_short(self.start + self._pushed):  # it may end here, and stay whole
            return self.start
        if self._regions:
            return self._native(self._regions[0][0] if self._cut is None else self._cut)
        return self._native(max(self._next_start() - self._pad, 0))

    def push(self, samples: Float32s) -> None:
        """The next samples of the turn, float32 [n, channels]."""
        self._pushed += len(samples)
        if self._is_short(self.end):
            return
        if self._model is None:
            self._model = Probabilities(self._rate)
        self._detect(self._model.push(samples), math.inf)
        if not self._is_short(self.start + self._pushed):
            silence = self._next_start() - self._pad - (self._until + self._pad)
            self._settle(silence >= SHORT_TURN_SECONDS * RATE)

    def finish(self, count: int) -> None:
        """The turn was pushed to its end, or the recording ended after `count` samples."""
        self.finished = True
        self.end = end = int(min(self.end, count))
        length = (end - self.start) * RATE // self._rate
        if not self._is_short(end):
            assert self._model is not None
            self._detect(self._model.finish(), length)
            if self._hysteresis.start is not None:
                self._reach(self._hysteresis.start * WINDOW, length)
            self._settle(True, length)
        elif length >= self._longest:  # possible only if max_seconds is 20 or less
            self._add(0, length)
        elif end > self.start:
            self.final.append(Piece(self.start, end, self.index, self.speaker, whole=True))

    def _is_short(self, end: float) -> bool:
        return end - self.start <= SHORT_TURN_SECONDS * self._rate

    def _next_start(self) -> int:
        """The first sample at which a region may begin that does not count yet, not padded."""
        start = self._hysteresis.start
        return WINDOW * (self._hysteresis.until if start is None else start)

    def _detect(self, probabilities: Float32s, length: float) -> None:
        """The next windows, of a turn of at most `length`."""
        for probability in probabilities.tolist():
            region = self._hysteresis.push(probability)
            if region is None and self._hysteresis.start is not None:
                region = self._hysteresis.start, self._hysteresis.until
            if region is not None:
                self._reach(region[0] * WINDOW, int(min(region[1] * WINDOW, length)))

    def _reach(self, start: int, until: int) -> None:
        """The region from `start` lasts at least up to `until`. It counts once it is longer than
        `min_speech_ms`; two pads that would meet share the pause equally."""
        if until - start <= self._least:
            return
        if start != self._begun:
            pad = self._pad if self._begun < 0 else min(self._pad, (start - self._until) // 2)
            if self._regions:
                self._regions[-1][1] += pad
            self._regions.append([max(start - pad, 0), until])
            self._begun = start
        self._regions[-1][1] = self._until = until

    def _settle(self, ended: bool, length: float = math.inf) -> None:
        """Make pieces of the regions whose gaps are decided; of all if no region follows closely.

        The rule of Emilia-Pipe is recursive: a group of regions that is not shorter than 20 s is
        split at its largest gap (the first of equal ones), and so is each part. So a gap splits if
        and only if the speech between the next larger gaps on its left and right is not shorter,
        and surely if it is larger than one that split before.
        """
        regions, number = self._regions, 1  # of the region after a gap
        if ended and regions:
            regions[-1][1] = int(min(self._until + self._pad, length))
        while number < len(regions):
            gaps = [right[0] - left[1] for left, right in pairwise(regions)]
            gap = gaps[number - 1]
            before = (n for n in range(number - 1, 0, -1) if gaps[n - 1] >= gap)
            behind = (n for n in range(number + 1, len(regions)) if gaps[n - 1] > gap)
            first, last = next(before, 0), next(behind, None)
            long = regions[first:last][-1][1] - regions[first][0] >= SHORT_TURN_SECONDS * RATE
            if long or (first == 0 and gap > self._gap):
                self._add(regions[0][0], regions[number - 1][1])
                del regions[:number]
                self._gap, number = gap, 1
            elif last is not None or ended:
                number += 1
            else:
                return
        if ended and regions:
            self._add(regions[0][0], regions[-1][1])
            regions.clear()
            self._gap = math.inf
        elif len(regions) == 1:  # so that samples of an open region can be released
            self._cut_evenly(*regions[0])

    def _add(self, start: int, end: int) -> None:
        """A piece, or of one that is too long the rest, whatever its length."""
        self._cut_evenly(start, end)
        self._hold(start if self._cut is None else self._cut, end, self._cut is not None)
        self._cut = None

    def _cut_evenly(self, start: int, end: int) -> None:
        """Pieces of exactly the longest length, as many as fit behind the last cut."""
        while end - (low := start if self._cut is None else self._cut) >= self._longest:
            self._cut = low + self._longest
            self._hold(low, self._cut, True)

    def _hold(self, start: int, end: int, cut: bool) -> None:
        bounds = self._native(start), self._native(end)
        self.final.append(Piece(*bounds, self.index, self.speaker, cut=cut))

    def _native(self, position: int) -> int:
        """A position in the turn at 16 kHz as a sample of the recording."""
        return int(min(self.start + position * self._rate // RATE, self.end))


class EmiliaSegmenter(Cover):
    """The segmenter `vad` with `merge: emilia`. `voices`: the speaker of each turn, if a diarizer
    made the turns; spans then carry it in place of the turn. `between`: ranges beside the
    diarizer's turns, by reason; all else is non-speech, such as music before the first turn."""

    def __init__(
        self,
        settings: SpeechSettings,
        rate: int,
        given: Sequence[Segment],
        voices: Sequence[int] | None = None,
        between: Mapping[str, list[Range]] | None = None,
    ) -> None:
        super().__init__()
        self._between = between or {}
        self._settings, self._rate, self._voices = settings, rate, voices
        self._count = 0  # samples pushed
        self._segments, turns = _turns(settings, rate, given)
        self._turns = deque(turns)  # whose pieces are not all merged, in the source's order
        self._ahead = sorted(turns, key=lambda turn: turn.start, reverse=True)
        self._active: list[Turn] = []
        self._turn_ranges: list[Range] = []
        self._last: Piece | None = None  # the last piece, which may still grow
        self._utterances: list[Range] = []
        self._too_short: list[Range] = []

    def push(self, block: Float32s) -> list[Span]:
        block_start, self._count = self._count, self._count + len(block)
        while self._ahead and self._ahead[-1].start < self._count:
            self._active.append(self._ahead.pop())
        for turn in self._active:
            low, high = max(turn.start, block_start), int(min(turn.end, self._count))
            if low < high:
                turn.push(block[low - block_start : high - block_start])
        self._end([turn for turn in self._active if turn.end <= self._count])
        self._merge_pieces()
        return self.take()

    def finish(self) -> list[Span]:
        self._end([*self._active, *self._ahead])
        self._merge_pieces()
        self._finalise()
        if self._voices is None:
            outside = [turn.index for turn in reversed(self._ahead)]
            self.spans += [Span(self._count, self._count, given=index) for index in outside]
        self._label_rest()
        return self.take()

    @property
    def needed_from(self) -> int:
        last = self._count if self._last is None else self._last.start
        return int(min(self._count, last, self._next_piece()))

    def _label_rest(self) -> None:
        """Add spans for all samples outside utterances; the first kind that applies counts."""
        kinds: list[tuple[Kind, str | None, list[Range]]] = [
            ("unsegmented", "below_min_seconds", self._too_short),
            ("non_speech", None, self._turn_ranges),
            *(("unsegmented", reason, ranges) for reason, ranges in self._between.items()),
        ]
        if self._voices is not None:
            kinds.append(("non_speech", None, [(0, self._count)]))
        else:
            kinds.append(("unsegmented", "overlap", self._segments))
            kinds.append(("unsegmented", "outside_segments", [(0, self._count)]))
        covered = self._utterances
        for kind, reason, ranges in kinds:
            outside = complement([r for r in ranges if r[0] < r[1]], self._count)
            rest = complement(covered + outside, self._count)  # in these ranges, not covered yet
            self.spans += [Span(start, end, kind, reason=reason) for start, end in rest]
            covered = covered + rest

    def _next_piece(self) -> float:
        """No piece that is still to be merged starts before this sample."""
        if not self._turns:
            return math.inf
        first, *later = self._turns
        return min([first.earliest_pending, *(turn.start for turn in later)])

    def _end(self, turns: list[Turn]) -> None:
        for turn in turns:
            turn.finish(self._count)
            if turn.start < turn.end:
                self._turn_ranges.append((turn.start, int(turn.end)))
        self._active = [turn for turn in self._active if not turn.finished]

    def _merge_pieces(self) -> None:
        """Rule 3 on the pieces that are final in their turns, in the source's order of turns."""
        while self._turns:
            turn = self._turns[0]
            for piece in turn.final:
                self._merge(piece)
            turn.final.clear()
            if not turn.finished:
                break
            self._turns.popleft()
        last, settings = self._last, self._settings
        if last is not None:  # no piece that starts so late can be merged into it
            next_piece = self._next_piece()
            too_far = next_piece - last.end >= settings.max_gap_seconds * self._rate
            if too_far or next_piece - last.start >= settings.max_seconds * self._rate:
                self._finalise()

    def _merge(self, piece: Piece) -> None:
        settings, rate, last = self._settings, self._rate, self._last
        if (
            last is not None
            and not piece.cut
            and piece.end - piece.start < settings.min_seconds * rate
            and piece.speaker == last.speaker
            and piece.start - last.end < settings.max_gap_seconds * rate
            and piece.end - last.start < settings.max_seconds * rate
        ):
            last.end, last.whole = piece.end, False
        else:
            self._finalise()
            self._last = piece

    def _finalise(self) -> None:
        last, self._last = self._last, None
        if last is None or last.end <= last.start:
            return
        bounds = (last.start, last.end)
        if last.end - last.start < self._settings.min_seconds * self._rate:
            self._too_short.append(bounds)
            return
        self._utterances.append(bounds)
        if self._voices is not None and last.turn is not None:
            self.spans.append(Span(*bounds, voice=self._voices[last.turn]))
        elif last.whole:
            self.spans.append(Span(*bounds, given=last.turn))
        else:
            self.spans.append(Span(*bounds, turn=last.turn))


def _turns(
    settings: SpeechSettings, rate: int, given: Sequence[Segment]
) -> tuple[list[Range], list[Turn]]:
    """Bounds of all segments in samples, and the turns that rule 1 keeps."""
    if not given:
        return [], [Turn(settings, rate, 0, math.inf)]
    segments, turns, last_end = [], [], 0.0
    for index, segment in enumerate(given):
        start = int(min(sample(segment.start, rate), FAR))
        end = sample(segment.end, rate)
        segments.append((start, int(min(end, FAR))))
        if end > last_end:
            last_end = end
            turns.append(Turn(settings, rate, start, end, index, segment.speaker))
    return segments, turns
