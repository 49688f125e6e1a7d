"""A recogniser whose model takes memory, of which it says as much as a test wants."""

import time
from collections.abc import Iterator, Sequence

import numpy as np

from uttermill.tasks.asr import SpeechClip, Transcript, fake
from uttermill.tasks.settings import StageSettings, Transient

VERSION = 1
MIB = 1 << 20
STEP = 10  # MiB


class Settings(StageSettings):
    takes: int = Transient(300, "MiB.")
    says: int = Transient(0, "MiB.")


def weights(settings: Settings) -> str:
    return "heavy"


def model_bytes(settings: Settings) -> int:
    return settings.says * MIB


class Backend:
    RATE = 16000

    def __init__(self, settings: Settings) -> None:
        self._weights = []
        for _ in range(0, settings.takes, STEP):  # no faster than a disk gives weights
            self._weights.append(np.ones(STEP * MIB, np.uint8))
            time.sleep(0.01)

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        for clip in clips:
            yield Transcript(fake.heard(clip), "en", 1.0, -0.1, 0.0, 1.0)
