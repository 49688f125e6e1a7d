"""The source's own speakers: each line of its RTTM files, or segment that names one, is a turn.

Names that only number the speakers of a recording, as diarizers write them (`SPEAKER_00`, `spk1`),
are not names: two recordings' `SPEAKER_00` are two people.
"""

import re
from collections.abc import Sequence

from ..base.arrays import Float32s
from ..recording import Segment
from . import CuttingSettings, Diarizer, Turn

VERSION = 1
USES_SPEAKERS = True
NUMBER = re.compile(r"(?i)(speaker|spk)[_-]?\d+")
Settings = CuttingSettings


class Given:
    def __init__(self, rate: int, given: Sequence[Segment]) -> None:
        self._rate, self._given = rate, given
        self._count = 0

    def push(self, block: Float32s) -> None:
        self._count += len(block)

    def finish(self) -> tuple[Turn, ...]:
        numbers: dict[str, int] = {}
        turns = []
        for segment in sorted(self._given, key=lambda s: s.start):
            if segment.speaker is None:
                continue
            end = self._count if segment.end is None else self._native(segment.end)
            start = self._native(segment.start)
            if start < end:
                number = numbers.setdefault(segment.speaker, len(numbers))
                name = None if NUMBER.fullmatch(segment.speaker) else segment.speaker
                turns.append(Turn(start, end, number, name))
        return tuple(turns)

    def _native(self, seconds: float) -> int:
        return int(min(max(seconds * self._rate + 0.5, 0), self._count))


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Diarizer:
    return Given(rate, given)
