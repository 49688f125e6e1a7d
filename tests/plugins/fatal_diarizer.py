"""A diarizer whose runtime dies, eats memory or hangs on recordings of one length; for others, one
person speaks."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tasks.diarizers import Turn
from tasks.recording import Segment
from tasks.settings import StageSettings
from tests.plugins import poison

VERSION = 1


class Settings(StageSettings):
    how: poison.How = "segv"
    seconds: float = -1.0


class Fatal:
    def __init__(self, settings: Settings, rate: int) -> None:
        self.settings, self.rate, self.count = settings, rate, 0

    def push(self, block: NDArray[np.float32]) -> None:
        self.count += len(block)

    def finish(self) -> tuple[Turn, ...]:
        if abs(self.count / self.rate - self.settings.seconds) < 1e-3:
            poison.harm(self.settings.how)
        return (Turn(0, self.count, 0),)


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Fatal:
    return Fatal(settings, rate)
