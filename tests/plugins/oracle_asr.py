"""A recogniser that knows what is said in some recordings of 16 kHz, and when."""

import json
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import soundfile as sf

from uttermill.tasks.asr import SpeechClip, Transcript, Word
from uttermill.tasks.settings import StageSettings

VERSION = 1
HEARD: list[float] = []  # seconds of each clip, in this process
FATAL = "<fatal>"  # a word that it fails on


class Settings(StageSettings):
    path: str = ""  # a recording; beside it, with the extension .json, [[word, start, end], …]
    more: tuple[str, ...] = ()  # further ones
    timed: bool = True


def weights(settings: Settings) -> str:
    return "oracle"


class Backend:
    RATE = 16000

    def __init__(self, settings: Settings) -> None:
        self._timed = settings.timed
        self._known = [
            (
                sf.read(path, dtype="int16")[0].astype("<i2").tobytes(),
                json.loads(Path(path).with_suffix(".json").read_text()),
            )
            for path in (settings.path, *settings.more)
        ]

    def transcribe(self, clips: Sequence[SpeechClip]) -> Iterator[Transcript]:
        for clip in clips:
            samples = np.round(clip.samples * 32768).astype("<i2").tobytes()
            places = [(whole.find(samples), words) for whole, words in self._known]
            place, known = max(places, key=lambda pair: pair[0])
            if place < 0:  # the clip that every recogniser is tried with
                yield Transcript("")
                continue
            at, odd = divmod(place, 2)
            assert not odd
            HEARD.append(len(clip.samples) / self.RATE)
            begin, end = at / self.RATE, (at + len(clip.samples)) / self.RATE
            if any(w[0] == FATAL and begin <= w[1] < end for w in known):
                yield Transcript(None, error="it cannot hear this")
                continue
            own = [w for w in known if begin <= (w[1] + w[2]) / 2 < end]
            words = tuple(
                Word(f" {text}", max(start - begin, 0.0), stop - begin, 1.0)
                for text, start, stop in own
            )
            text = "".join(word.word for word in words).strip()
            yield Transcript(text, "en", 1.0, -0.1, 0.0, 1.0, words=words if self._timed else None)
