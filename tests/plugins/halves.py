"""A diarizer for tests: two people speak, one in each half, and both in the tenth in the middle.

Each recording that it hears is a line in `heard`, a file, where one is named.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from uttermill.tasks.diarizers import Turn
from uttermill.tasks.recording import Segment
from uttermill.tasks.settings import THRESHOLD, TRANSIENT, StageSettings

VERSION = 1
T = TypeVar("T", bound=StageSettings)


class Settings(StageSettings):
    min_turn_seconds: float = Field(0.0, json_schema_extra=THRESHOLD)
    mixed: bool = Field(False, json_schema_extra=THRESHOLD)
    heard: str | None = Field(None, json_schema_extra=TRANSIENT)


class Counting(Generic[T]):
    """Only counts the samples of a recording."""

    def __init__(self, settings: T, rate: int) -> None:
        self.settings, self.rate, self.count = settings, rate, 0

    def push(self, block: NDArray[np.float32]) -> None:
        self.count += len(block)


class Halves(Counting[Settings]):
    def finish(self) -> tuple[Turn, ...]:
        if self.settings.heard:
            with Path(self.settings.heard).open("a") as file:
                file.write(f"{self.count}\n")
        low, high = int(self.count * 0.45), int(self.count * 0.55)
        return Turn(0, high, 0), Turn(low, self.count, 1)


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Halves:
    return Halves(settings, rate)
