"""Clips and recordings with exact references, made from the sentences of the corpus.

A clip is several sentences of one speaker with pauses between them, which hold faint noise: digital
silence is rare in recordings and easy for a recogniser. Everything follows from a seed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tests.helpers.corpus_speech import RATE as RATE
from tests.helpers.corpus_speech import Floats, read, transcribed

ROOM_DBFS = -65.0  # level of the noise in pauses
LEVEL_DBFS = -23.0  # RMS that every sentence is brought to


@dataclass(frozen=True, slots=True)
class Sentence:
    """One clean utterance of the corpus: float32 mono at `RATE`, what is said, who says it."""

    samples: Floats
    text: str
    language: str
    speaker: str

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


@dataclass(frozen=True, slots=True)
class Mixture:
    """Sentences in one stream, with where each begins and ends in samples at `RATE`."""

    name: str
    samples: Floats
    sentences: tuple[Sentence, ...]
    bounds: tuple[tuple[int, int], ...]

    @property
    def language(self) -> str:
        return self.sentences[0].language

    @property
    def text(self) -> str:
        return " ".join(sentence.text for sentence in self.sentences)

    @property
    def seconds(self) -> float:
        return len(self.samples) / RATE


@cache
def sentences(corpus: Path) -> tuple[Sentence, ...]:
    """Every clean utterance of 1 to 16 s with a text that the corpus's list names as speech."""
    found = []
    for row in transcribed(corpus):
        plain = row["path"].split("/")[0] == row["language"]  # not `formats`, not `degraded`
        clean = plain and not row["transform"]
        if clean and 1.0 <= row["seconds"] <= 16.0 and row["sample_rate"] >= 8000:
            samples = levelled(read(corpus / row["path"]))
            speaker = row["speaker"] or row["path"].rsplit("/", 1)[0]
            found.append(Sentence(samples, row["text"], row["language"], speaker))
    return tuple(found)


def levelled(samples: Floats, dbfs: float = LEVEL_DBFS) -> Floats:
    """The samples at an RMS of `dbfs`, lower where that would clip."""
    rms = float(np.sqrt(np.mean(samples**2))) or 1.0
    gain = min(10 ** (dbfs / 20) / rms, 0.99 / (float(np.abs(samples).max()) or 1.0))
    return (samples * gain).astype(np.float32)


def joined(
    name: str, chosen: Sequence[Sentence], pauses: Sequence[float], rng: np.random.Generator
) -> Mixture:
    """The sentences in a row; `pauses` in seconds: before the first, between, after the last."""
    pieces, bounds, at = [], [], 0
    for pause, sentence in zip(pauses, [*chosen, None], strict=True):
        pieces.append(np.zeros(round(pause * RATE), np.float32))
        at += len(pieces[-1])
        if sentence is not None:
            pieces.append(sentence.samples)
            bounds.append((at, at + len(sentence.samples)))
            at += len(sentence.samples)
    samples = np.concatenate(pieces)
    samples += rng.standard_normal(len(samples)).astype(np.float32) * np.float32(
        10 ** (ROOM_DBFS / 20)
    )
    return Mixture(name, samples, tuple(chosen), tuple(bounds))


def clips(corpus: Path, count: int, seed: int = 0) -> list[Mixture]:
    """`count` clips of 15 to 30 s with pauses of 0.3 to 2 s, the languages in turn; half of them of
    one speaker, half with another speaker after each pause, where a language has several."""
    rng = np.random.default_rng(seed)
    speakers = by_speaker(corpus)
    languages = sorted({language for language, _ in speakers})
    decks = {key: Deck(pool, rng) for key, pool in speakers.items()}
    found: list[Mixture] = []
    while len(found) < count:
        language = languages[len(found) % len(languages)]
        own = [deck for key, deck in decks.items() if key[0] == language]
        voices = [own[i] for i in rng.permutation(len(own))]
        if len(found) // len(languages) % 2 == 0:
            voices = voices[:1]
        made = _clip(f"clip{len(found):03d}", voices, rng)
        if 15.0 <= made.seconds <= 30.0:
            found.append(made)
    return found


def _clip(name: str, voices: Sequence[Deck], rng: np.random.Generator) -> Mixture:
    """Sentences of the voices in turn, until the clip is about as long as was drawn."""
    target = float(rng.uniform(17, 29))
    chosen: list[Sentence] = []
    pauses = [float(rng.uniform(0.05, 0.3))]
    seconds = pauses[0]
    while seconds < target:
        deck = voices[len(chosen) % len(voices)]
        pause = float(rng.uniform(0.3, 2.0)) if chosen else 0.0
        if chosen and seconds + pause + deck.top.seconds > 29.3:
            break
        pauses += [pause] if chosen else []
        chosen.append(deck.draw())
        seconds += pause + chosen[-1].seconds
    return joined(name, chosen, [*pauses, float(rng.uniform(0.05, 0.3))], rng)


class Deck:
    """Sentences that are drawn in random order; all of them, before one comes again."""

    def __init__(self, pool: Sequence[Sentence], rng: np.random.Generator) -> None:
        self._pool, self._rng = pool, rng
        self._left: list[Sentence] = []

    @property
    def top(self) -> Sentence:
        if not self._left:
            self._left = [self._pool[i] for i in self._rng.permutation(len(self._pool))]
        return self._left[-1]

    def draw(self) -> Sentence:
        top = self.top
        self._left.pop()
        return top


def by_speaker(corpus: Path) -> dict[tuple[str, str], list[Sentence]]:
    """Sentences by (language, speaker), where there is enough of one speaker for a clip."""
    pools: dict[tuple[str, str], list[Sentence]] = {}
    for sentence in sentences(corpus):
        pools.setdefault((sentence.language, sentence.speaker), []).append(sentence)
    return {key: pool for key, pool in sorted(pools.items()) if sum(s.seconds for s in pool) > 25}


def recording(
    name: str, pool: Sequence[Sentence], minutes: float, pause: tuple[float, float], seed: int = 0
) -> Mixture:
    """Sentences of a pool in random order, again and again, until `minutes` are full."""
    rng = np.random.default_rng(seed)
    chosen: list[Sentence] = []
    pauses: list[float] = []
    seconds = 0.0
    while seconds < minutes * 60:
        for index in rng.permutation(len(pool)):
            pauses.append(float(rng.uniform(*pause)))
            chosen.append(pool[index])
            seconds += pauses[-1] + pool[index].seconds
            if seconds >= minutes * 60:
                break
    pauses.append(float(rng.uniform(*pause)))
    return joined(name, chosen, pauses, rng)
