"""A diarizer whose runtime dies, eats memory or hangs on recordings of one length; for others, one
person speaks."""

from __future__ import annotations

from collections.abc import Sequence

from tests.plugins import poison
from tests.plugins.halves import Counting
from uttermill.tasks.diarizers import Turn
from uttermill.tasks.recording import Segment
from uttermill.tasks.settings import StageSettings

VERSION = 1


class Settings(StageSettings):
    how: poison.How = "segv"
    seconds: float = -1.0


class Fatal(Counting[Settings]):
    def finish(self) -> tuple[Turn, ...]:
        if abs(self.count / self.rate - self.settings.seconds) < 1e-3:
            poison.harm(self.settings.how)
        return (Turn(0, self.count, 0),)


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Fatal:
    return Fatal(settings, rate)
