"""The recording is one utterance."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.arrays import Float32s
from ..recording import Segment
from ..settings import StageSettings
from . import Span

VERSION = 1
Settings = StageSettings  # none


class Whole:
    needed_from = 0

    def __init__(self) -> None:
        self._count = 0

    def push(self, block: Float32s) -> list[Span]:
        self._count += len(block)
        return []

    def finish(self) -> list[Span]:
        return [Span(0, self._count)] if self._count else []


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Whole:
    return Whole()
