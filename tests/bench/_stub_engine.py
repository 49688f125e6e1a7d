"""A fake recogniser that takes the time of a fast GPU and does the host's work.

It computes the spectrograms that Whisper would get, waits `seconds / speed`, and returns words
chosen by a hash. `MEL` counts the CPU time of the spectrograms in this process.
"""

import time
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import Any

import numpy as np

from uttermill.tasks.asr import SpeechClip, Transcript, fake
from uttermill.tasks.settings import StageSettings

VERSION = 1
MEL = [0.0]  # CPU s


class Settings(StageSettings):
    speed: float = 1000.0  # x real time
    gpu: bool = True  # runs on a worker that is pinned to a GPU


def wants_gpu(settings: Settings) -> bool:
    return settings.gpu


def gpu_fault(settings: Settings) -> str | None:
    return None  # it only waits


def weights(settings: Settings) -> str:
    return "stub"


class Backend:
    RATE = 16000

    def __init__(self, settings: Settings) -> None:
        self._speed = settings.speed

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        for clip in clips:
            began = time.process_time()
            mels = _features()(clip.samples[: 30 * self.RATE])
            np.stack([mels])  # the batch that an engine is given
            MEL[0] += time.process_time() - began
            time.sleep(len(clip.samples) / self.RATE / self._speed)
            yield Transcript(fake.heard(clip), "en", 1.0, -0.1, 0.0, 1.0)


@lru_cache(maxsize=1)
def _features() -> Any:
    from faster_whisper.feature_extractor import FeatureExtractor

    return FeatureExtractor()
