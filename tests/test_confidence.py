"""The verdict `confidence`: its number from scores alone, what it drops, and on real speech."""

from __future__ import annotations

import os
from math import log

import numpy as np
import pytest

from tasks.settings import Plugin
from tasks.text import Heard, confidence
from tests.test_text import reason

on_corpus = pytest.mark.skipif(
    "UTTERMILL_CORPUS" not in os.environ, reason="UTTERMILL_CORPUS is not set"
)


def value(text: str, seconds: float, **known: float | None) -> float | None:
    heard = Heard(text, "asr", seconds, text, **known)  # type: ignore[arg-type]
    return confidence.measure(heard, confidence.Settings())["confidence"]


@pytest.mark.parametrize(
    ("text", "seconds", "known", "expected"),
    [
        # three scores
        ("what was said there", 9.5,
         {"avg_logprob": -0.4, "language_probability": 0.8, "no_speech_probability": 0.25},
         -0.4 + log(0.8) + log(0.75) + 3 / 20),
        # one that is not known says nothing
        ("what was said there", 9.5, {"avg_logprob": -0.4}, -0.4 + 3 / 20),
        ("what was said there", 9.5, {"avg_logprob": -0.4, "no_speech_probability": 0.25},
         -0.4 + log(0.75) + 3 / 20),
        ("what was said there", 9.5,
         {"language_probability": 0.8, "no_speech_probability": 0.25}, None),
        # the allowance is the word's in a short clip, not in a long one
        ("Seven.", 0.4, {"avg_logprob": -1.0}, -1.0 + 3 / 2),
        ("Seven.", 9.5, {"avg_logprob": -1.0}, -1.0 + 3 / 20),
        ("想听歌曲老男孩", 1.0, {"avg_logprob": -1.0}, -1.0 + 3 / 8),
        # certain of the opposite: low, and finite
        ("you", 9.5, {"avg_logprob": -1.0, "no_speech_probability": 1.0}, -1 + log(1e-6) + 3 / 20),
        ("you", 9.5, {"avg_logprob": -1.0, "language_probability": 0.0}, -1 + log(1e-6) + 3 / 20),
    ],
)  # fmt: skip
def test_the_number(
    text: str, seconds: float, known: dict[str, float], expected: float | None
) -> None:
    found = value(text, seconds, **known)
    assert found == (None if expected is None else pytest.approx(expected))


def test_words_are_those_that_were_heard() -> None:
    """The scores are of the hypothesis, whatever text is packaged."""
    long = "a reference of many more words than anybody heard in this clip here"
    heard = Heard(long, "reference", 1.0, "Seven.", long, avg_logprob=-1.0)
    found = confidence.measure(heard, confidence.Settings())["confidence"]
    assert found == pytest.approx(-1.0 + 3 / 3)


@pytest.mark.parametrize(
    ("text", "seconds", "scores", "dropped"),
    [
        # (avg_logprob, language_probability, no_speech_probability) as Whisper base gave them
        ("I really like that account of himself, better than anything.", 4.8,
         (-0.22, 0.98, 0.07), False),  # pink noise at 10 dB
        ("How do you like that? I don't think so.", 4.8, (-0.94, 0.44, 0.31), True),  # at -5 dB
        ("上海新東山走行機換轉", 3.9, (-1.13, 0.94, 0.29), True),  # white noise at 5 dB
        ("Je ne sais pas ce que tu veux dire, je ne sais pas.", 8.6, (-1.1, 0.61, 0.32), True),
        ("Seven.", 0.4, (-0.67, 0.83, 0.21), False),
        ("is in use.", 1.2, (-0.37, 0.75, 0.02), False),
        ("Actualmente hay otro participante en la conferencia.", 4.7, (-0.07, 0.56, 0.04), False),
    ],
)  # fmt: skip
def test_what_is_dropped(
    text: str, seconds: float, scores: tuple[float, float, float], dropped: bool
) -> None:
    logprob, language, no_speech = scores
    heard = Heard(
        text, "asr", seconds, text, avg_logprob=logprob, language_probability=language,
        no_speech_probability=no_speech,
    )  # fmt: skip
    assert reason(heard, Plugin(use="confidence")) == ("low_confidence" if dropped else None)


@on_corpus
def test_speech_under_loud_noise_is_dropped_and_under_soft_noise_kept() -> None:
    """Three languages through Whisper base and all the defaults, without a reference."""
    from tests.bench import verdict_listening as listening
    from tests.bench.verdict_clips import Said, carriers
    from tests.bench.verdict_sounds import MADE, mixed

    found: dict[float, list[str | None]] = {}
    clips = []
    for number, said in enumerate(carriers(3)):
        noise = MADE["white"](np.random.default_rng(number), len(said.samples))
        for snr in (15.0, -7.0):
            loud = mixed(said.samples, noise, snr)
            clips.append(Said(said.name, "mixed", "white", loud, said.language, said.text, snr))
    for row in listening.hear(clips):
        found.setdefault(row.snr or 0, []).append(listening.reason(row.values))
    assert found[15.0] == [None] * 3
    assert None not in found[-7.0]
