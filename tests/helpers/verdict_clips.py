"""Clips of the corpus's speech, in the same order each time."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.helpers.corpus_speech import RATE, Floats, read, transcribed

LONGEST = 30.0  # s: one window of Whisper
VOICES = 25  # that babble is made of


@dataclass(frozen=True, slots=True)
class Said:
    """One clip, mono at 16 kHz, and what is known of it."""

    name: str
    group: str  # clean; how it was made worse
    kind: str  # digit, word, prompt or sentence; kind of noise; voice
    samples: Floats
    language: str | None = None
    text: str | None = None
    snr: float | None = None  # dB

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


def corpus() -> Path:
    return Path(os.environ["UTTERMILL_CORPUS"])


def clean(every: int = 1) -> Iterator[Said]:
    """Transcribed recordings of the corpus; of each language every so many."""
    seen: dict[str, int] = {}
    for row in transcribed(corpus()):
        folder = row["path"].split("/")[0]
        if not 0.2 <= row["seconds"] <= LONGEST:
            continue
        if folder in ("noise", "degraded") or (folder == "formats" and row["language"] != "ja"):
            continue
        place = "/".join(row["path"].split("/")[:2])
        seen[place] = seen.get(place, -1) + 1
        if seen[place] % every == 0:
            kind = kind_of(row["path"], row["text"])
            samples = read(corpus() / row["path"])
            yield Said(row["path"], "clean", kind, samples, row["language"], row["text"])


def kind_of(path: str, text: str) -> str:
    if "fsdd" in path:
        return "digit"
    if "hsk_words" in path or (len(text.split()) == 1 and text.isascii()):
        return "word"
    return "prompt" if "asterisk" in path else "sentence"


def carriers(count: int) -> list[Said]:
    """Sentences of 3 to 12 s for mixtures: all languages and speakers in turn."""
    places: dict[str, list[Said]] = {}
    for said in clean():
        if said.kind in ("sentence", "prompt") and 3 <= said.seconds <= 12:
            places.setdefault(said.name.rpartition("/")[0], []).append(said)
    wanted = ("en/librispeech", "zh/aishell", "de/kerstin", "es/asterisk", "en/ljspeech")
    each = -(-count // len(wanted))
    spread = [spaced(places[place], each) for place in wanted]
    return [said for turn in zip(*spread, strict=False) for said in turn][:count]


def spaced(found: list[Said], count: int) -> list[Said]:
    return found[:: max(len(found) // count, 1)]
