"""Measured speech rates, compared with the syllables that espeak-ng says, or would say for the text
of a real recording."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soxr

from tests.bench import corpus_speech
from tests.bench._language_sentences import SENTENCES
from tests.bench._voice_errors import Measured, Sum, measured, percent_errors
from tests.helpers import timed_speech
from tests.helpers.timed_speech import Floats, Line
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import _derived as derived
from uttermill.tasks.filters import speech_rate

LANGUAGES = ("en", "de", "fr", "it", "es", "nl", "pl", "fi", "tr", "ru", "id", "hi", "pt", "el")
CHINESE = (
    "我昨天去了市场买了很多苹果和面包。",
    "火车早上七点开往城里。",
    "我奶奶住在河边的一座小房子里。",
    "请问最近的药店在哪里？",
    "冬天天黑得很早，孩子们都待在家里。",
)
VARIANTS = ("", "+f2", "+m3", "+f3")
SPEEDS = (110, 160, 220, 290)  # words a minute
NOISES = (20, 10)  # dB, white
REAL = ("librispeech", "ljspeech", "librivox", "kerstin", "aishell", "asterisk")
VOICES = {"en": "en-us", "de": "de", "es": "es", "zh": "cmn"}
RATE = corpus_speech.RATE


def lines() -> Iterator[tuple[str, Line]]:
    """(language, what is said) at each speed, in voices that take turns."""
    sentences = {name: (SENTENCES[name][0], SENTENCES[name][2]) for name in LANGUAGES}
    number = 0
    for language, (voice, texts) in {**sentences, "zh": ("cmn", CHINESE)}.items():
        for text in texts:
            for speed in SPEEDS:
                variant = VARIANTS[number % len(VARIANTS)]
                pitch = 35 + 10 * (number % len(VARIANTS))
                yield language, Line(text, voice + variant, speed, pitch)
                number += 1


def report(corpus: Path | None) -> Iterator[str]:
    cost = Sum()
    pairs: dict[str, list[Measured]] = {}
    chosen = list(lines())
    spoken = timed_speech.speak([line for _, line in chosen])
    chance = np.random.default_rng(0)
    for (language, line), said in zip(chosen, spoken, strict=True):
        samples = soxr.resample(said.samples, timed_speech.RATE, RATE, "HQ")
        true = said.syllables / said.spoken_seconds
        rate = _rate(samples, cost)
        for group in ("made, all", f"made, {language}", f"made, {line.speed} words a minute"):
            pairs.setdefault(group, []).append((rate, true))
        for snr in NOISES:
            pairs.setdefault(f"made, noise at {snr} dB", []).append(
                (_rate(_noisy(samples, snr, chance), cost), true)
            )
    if corpus:
        _real(corpus, pairs, cost)
    yield f"speech_rate: {cost}"
    for group, values in sorted(pairs.items()):
        yield f"  {group}: {percent_errors(values)}"


def _real(corpus: Path, pairs: dict[str, list[Measured]], cost: Sum) -> None:
    rows = [
        row
        for row in corpus_speech.transcribed(corpus)
        if any(name in row["path"] for name in REAL)
    ]
    texts = [Line(row["text"].lower(), VOICES[row["language"]]) for row in rows]
    for row, said in zip(rows, timed_speech.speak(texts), strict=True):
        samples = corpus_speech.read(corpus / row["path"])
        heard = derived.speech_probabilities(Clip.of(samples, RATE))
        seconds = float((heard >= speech_rate.SPEECH).sum()) * speech_rate.WINDOW / RATE
        if seconds >= 1:
            pair = _rate(samples, cost), said.syllables / seconds
            pairs.setdefault("real, all", []).append(pair)
            pairs.setdefault(f"real, {row['path'].split('/')[1]} {row['language']}", []).append(
                pair
            )


def _rate(samples: Floats, cost: Sum) -> float | None:
    return measured(speech_rate, samples, RATE, cost)["speech_rate"]


def _noisy(samples: Floats, snr: float, chance: np.random.Generator) -> Floats:
    noise = chance.standard_normal(len(samples)) * np.sqrt(
        np.square(samples).mean() / 10 ** (snr / 10)
    )
    return np.asarray(samples + noise, np.float32)
