"""A recogniser that knows what is said in one recording of 16 kHz, and when."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import soundfile as sf

from tasks.asr import SpeechClip, Transcript, Word
from tasks.settings import StageSettings

VERSION = 1
HEARD: list[float] = []  # seconds of each clip, in this process


class Settings(StageSettings):
    path: str = ""  # the recording; beside it, with the extension .json, [[word, start, end], …]
    timed: bool = True


def weights(settings: Settings) -> str:
    return "oracle"


class Backend:
    RATE = 16000

    def __init__(self, settings: Settings) -> None:
        self._timed = settings.timed
        self._whole = sf.read(settings.path, dtype="int16")[0].astype("<i2").tobytes()
        self._words = json.loads(Path(settings.path).with_suffix(".json").read_text())

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        for clip in clips:
            samples = np.round(clip.samples * 32768).astype("<i2").tobytes()
            at, odd = divmod(self._whole.find(samples), 2)
            if at < 0:  # the clip that every recogniser is tried with
                yield Transcript("")
                continue
            assert not odd
            HEARD.append(len(clip.samples) / self.RATE)
            begin, end = at / self.RATE, (at + len(clip.samples)) / self.RATE
            own = [w for w in self._words if begin <= (w[1] + w[2]) / 2 < end]
            words = tuple(
                Word(f" {text}", max(start - begin, 0.0), stop - begin, 1.0)
                for text, start, stop in own
            )
            text = "".join(word.word for word in words).strip()
            yield Transcript(text, "en", 1.0, -0.1, 0.0, 1.0, words=words if self._timed else None)
