"""A diarizer for tests: the first two samples of a recording, in hundredths, say who speaks in its
halves; the same person sounds a little different in each recording.

Each recording that it hears is a line in `heard`, a file, where one is named.
"""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from uttermill.tasks.diarizers import Turn
from uttermill.tasks.recording import Segment
from uttermill.tasks.settings import THRESHOLD, TRANSIENT, StageSettings
from uttermill.tasks.speech.embedding import SIZE, unit

VERSION = 1


class Settings(StageSettings):
    across_recordings: bool = Field(True, json_schema_extra=THRESHOLD)
    threshold: float = Field(0.5, json_schema_extra=THRESHOLD)
    heard: str | None = Field(None, json_schema_extra=TRANSIENT)


class Voiced:
    def __init__(self, settings: Settings) -> None:
        self.settings, self.blocks = settings, list[NDArray[np.float32]]()

    def push(self, block: NDArray[np.float32]) -> None:
        self.blocks.append(block[:, 0])

    def finish(self) -> tuple[Turn, ...]:
        samples = np.concatenate(self.blocks)
        if self.settings.heard:
            with Path(self.settings.heard).open("a") as file:
                file.write(f"{len(samples)}\n")
        people = [round(float(value) * 100) for value in samples[:2]]
        half = len(samples) // 2
        voices = [voice(person, len(samples)) for person in people]
        if people[0] == people[1]:
            return (Turn(0, len(samples), 0, voice=voices[0]),)
        return Turn(0, half, 0, voice=voices[0]), Turn(half, len(samples), 1, voice=voices[1])


def voice(person: int, session: int, noise: float = 0.5) -> bytes:
    """An embedding, float16 [192]; two of one person have a cosine of about 1 / (1 + noise²)."""
    own = np.random.default_rng([7, person]).normal(size=SIZE)
    other = np.random.default_rng([8, person, session]).normal(size=SIZE)
    return unit((own + noise * other).astype(np.float32)).astype("<f2").tobytes()


def start(settings: Settings, rate: int, given: Sequence[Segment]) -> Voiced:
    return Voiced(settings)
