"""Speaker turns to utterances by the rules of Emilia-Pipe, in one pass.

In: blocks of a recording and the source's segments, which are its speaker turns (without any, the
recording is one turn). Out: spans.

1. Turns keep the source's order; one that ends no later than the turn before it is left out.
2. Each turn is split into pieces at pauses (`turn.py`).
3. A piece shorter than `min_seconds` is merged into the piece before it in the list, if that has
   the same speaker, ends less than `max_gap_seconds` before, and the result is shorter than
   `max_seconds`. Never into the piece after it; a piece of another speaker between them, even a
   dropped one, prevents it.
4. Pieces that are still shorter than `min_seconds` are dropped: `unsegmented`, `below_min_seconds`.

Memory: bounds of spans, and per turn under way the detector's state and 16 s of audio. While turns
overlap, the pieces of the later one wait for the earlier one to end, and so do their samples, which
`tasks/stages/cutting.py` keeps.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Mapping, Sequence

from ...base.arrays import Float32s
from ...recording import Segment
from .. import Kind, Span
from .._speech_settings import SpeechSettings
from ..given import FAR, complement, sample
from .turn import Piece, Turn

Range = tuple[int, int]


class EmiliaSegmenter:
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
        self._between = between or {}
        self._settings, self._rate, self._voices = settings, rate, voices
        self._count = 0  # samples pushed
        self._segments, turns = _turns(settings, rate, given)
        self._turns = deque(turns)  # whose pieces are not all merged, in the source's order
        self._ahead = sorted(turns, key=lambda turn: turn.start, reverse=True)
        self._active: list[Turn] = []
        self._turn_ranges: list[Range] = []
        # earliest_start[n]: the smallest start among the last n turns
        self._earliest_start = [math.inf]
        for turn in reversed(turns):
            self._earliest_start.append(min(turn.start, self._earliest_start[-1]))
        self._last: Piece | None = None  # the last piece, which may still grow
        self._utterances: list[Range] = []
        self._too_short: list[Range] = []
        self._out: list[Span] = []

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
        return self._take()

    def finish(self) -> list[Span]:
        self._end(self._active)
        outside, self._ahead = self._ahead, []
        self._end(outside)
        self._merge_pieces()
        self._finalise()
        count = self._count
        if self._voices is None:
            self._out += [Span(count, count, given=turn.index) for turn in reversed(outside)]
        self._label_rest()
        return self._take()

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
            self._out += [Span(start, end, kind, reason=reason) for start, end in rest]
            covered = covered + rest

    def _next_piece(self) -> float:
        """No piece that is still to be merged starts before this sample."""
        if not self._turns:
            return math.inf
        return min(self._turns[0].earliest_pending, self._earliest_start[len(self._turns) - 1])

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
        last = self._last
        if last is not None and self._mergeable(last, piece):
            last.end, last.whole = piece.end, False
        else:
            self._finalise()
            self._last = piece

    def _mergeable(self, last: Piece, piece: Piece) -> bool:
        settings, rate = self._settings, self._rate
        return (
            not piece.cut
            and piece.end - piece.start < settings.min_seconds * rate
            and piece.speaker == last.speaker
            and piece.start - last.end < settings.max_gap_seconds * rate
            and piece.end - last.start < settings.max_seconds * rate
        )

    def _finalise(self) -> None:
        """Finalise the last piece."""
        last, self._last = self._last, None
        if last is None or last.end <= last.start:
            return
        bounds = (last.start, last.end)
        if last.end - last.start < self._settings.min_seconds * self._rate:
            self._too_short.append(bounds)
            return
        self._utterances.append(bounds)
        if self._voices is not None and last.turn is not None:
            self._out.append(Span(*bounds, voice=self._voices[last.turn]))
        elif last.whole:
            self._out.append(Span(*bounds, given=last.turn))
        else:
            self._out.append(Span(*bounds, turn=last.turn))

    def _take(self) -> list[Span]:
        out, self._out = self._out, []
        return out


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
