"""Clips of the corpus's speech, of speech in noise and of sounds without speech, in the same order
each time."""

import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from tests.helpers.corpus_speech import RATE, Floats, listed, read, transcribed
from tests.helpers.verdict_sounds import MADE, babble, levelled

LONGEST = 30.0  # s: one window of Whisper
VOICES = 25  # that babble is made of
PIECE = 8.0  # s of a sound without speech
MUSIC = "noise/moh_manolo_camp.wav"


@dataclass(frozen=True, slots=True)
class Said:
    """One clip, mono at 16 kHz, and what is known of it."""

    name: str
    group: str  # clean, unseen, mixed, sound, close
    kind: str  # command or sentence; kind of noise; kind of sound; voice's language
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


def sounds(each: int) -> Iterator[Said]:
    """No speech: made sounds, babble of many talkers, pieces of the corpus's noise and music."""
    for kind, make in MADE.items():
        for seed in range(each):
            rng = np.random.default_rng(seed)
            samples = make(rng, length(rng, seed))
            yield Said(f"{kind}{seed}", "sound", kind, samples)
    voices = [said.samples for said in carriers(VOICES)]
    for seed in range(each):
        rng = np.random.default_rng(seed)
        samples = babble(rng, length(rng, seed), voices, 6 + 2 * (seed % 4))
        yield Said(f"babble{seed}", "sound", "babble", samples)
    for row in listed(corpus()):
        if row["kind"] == "nonspeech" and row["path"].startswith("noise/"):
            yield from pieces(row["path"], "music" if row["path"] == MUSIC else "real")


def length(rng: np.random.Generator, seed: int) -> int:
    """Samples: 3 to 14 s, and every second time as short as a word."""
    return int(RATE * (rng.uniform(0.4, 1.5) if seed % 2 else rng.uniform(3, 14)))


def pieces(name: str, kind: str) -> Iterator[Said]:
    """Of at most 8 s; and of each a second around its loudest place, at the level of speech."""
    samples = read(corpus() / name)
    size = int(PIECE * RATE)
    for at in range(0, len(samples), size):
        piece = samples[at : at + size]
        if len(piece) >= RATE / 2 and np.abs(piece).max() > 0:
            yield Said(f"{name}@{at // RATE}", "sound", kind, piece)
            loudest = max(int(np.abs(piece).argmax()) - RATE // 2, 0)
            yield Said(
                f"{name}@{at // RATE} short", "sound", kind,
                levelled(piece[loudest : loudest + RATE]),
            )  # fmt: skip
