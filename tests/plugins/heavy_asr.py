"""A recogniser whose model takes memory, of which it says as much as a test wants."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from tasks.asr import SpeechClip, Transcript
from tasks.settings import StageSettings, Transient

VERSION = 1
MIB = 1 << 20


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
        self._weights = np.ones(settings.takes * MIB, np.uint8)

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        for clip in clips:
            yield Transcript(f"{len(clip.samples)} samples and {self._weights[0]}")
