"""The verdict `confidence`: its number from scores, what it drops, and on real speech."""

from __future__ import annotations

from math import log

import numpy as np
import pytest

from tests.text.test_text import reason
from uttermill.tasks.settings import Plugin
from uttermill.tasks.text import ScoredTranscript, confidence


def value(text: str, seconds: float, **known: float | None) -> float | None:
    heard = ScoredTranscript(text, "asr", seconds, text, **known)  # type: ignore[arg-type]
    return confidence.measure(heard, confidence.Settings())["confidence"]


@pytest.mark.parametrize(
    ("text", "seconds", "known", "expected"),
    [
        ("what was said there", 9.5, {"avg_logprob": -0.4, "no_speech_probability": 0.25},
         -0.4 + log(0.75) + 3 / 20),
        # what is not known says nothing; without the text's own score there is no number
        ("what was said there", 9.5, {"avg_logprob": -0.4}, -0.4 + 3 / 20),
        ("what was said there", 9.5, {"no_speech_probability": 0.25}, None),
        ("what was said there", 9.5, {"avg_logprob": -1.0, "compression_ratio": -1.0}, None),
        # the language is another verdict's
        ("what was said there", 9.5, {"avg_logprob": -0.4, "language_probability": 0.1},
         -0.4 + 3 / 20),
        # the allowance is the word's in a short clip, not in a long one
        ("Seven.", 0.4, {"avg_logprob": -1.0}, -1.0 + 3 / 2),
        ("Seven.", 9.5, {"avg_logprob": -1.0}, -1.0 + 3 / 20),
        ("想听歌曲老男孩", 1.0, {"avg_logprob": -1.0}, -1.0 + 3 / 8),
        # certain that nobody speaks: low, and finite
        ("you", 9.5, {"avg_logprob": -1.0, "no_speech_probability": 1.0}, -1 + log(1e-6) + 3 / 20),
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
    heard = ScoredTranscript(long, "reference", 1.0, "Seven.", long, avg_logprob=-1.0)
    found = confidence.measure(heard, confidence.Settings())["confidence"]
    assert found == pytest.approx(-1.0 + 3 / 3)


@pytest.mark.parametrize(
    ("text", "seconds", "scores", "dropped"),
    [
        # (avg_logprob, no_speech_probability) as Whisper base gave them
        ("I really like that account of himself, better than anything.", 4.8, (-0.22, 0.07),
         False),  # pink noise at 10 dB
        ("How do you like that? I don't think so.", 4.8, (-0.94, 0.31), True),  # at -5 dB
        ("上海新東山走行機換轉", 3.9, (-1.13, 0.29), True),  # white noise at 5 dB
        ("Je ne sais pas ce que tu veux dire, je ne sais pas.", 8.6, (-1.1, 0.32), True),  # babble
        ("1-2-3", 5.0, (-1.21, 0.36), True),  # no speech
        ("Seven.", 0.4, (-0.67, 0.21), False),
        ("7.", 0.4, (-1.28, 0.55), False),
        ("Actualmente hay otro participante en la conferencia.", 4.7, (-0.07, 0.04), False),
    ],
)  # fmt: skip
def test_what_is_dropped(
    text: str, seconds: float, scores: tuple[float, float], dropped: bool
) -> None:
    logprob, no_speech = scores
    heard = ScoredTranscript(
        text, "asr", seconds, text, avg_logprob=logprob, no_speech_probability=no_speech
    )  # fmt: skip
    assert reason(heard, Plugin(use="confidence")) == ("low_confidence" if dropped else None)


@pytest.mark.needs("corpus")
@pytest.mark.nightly
def test_speech_under_loud_noise_is_dropped_and_under_soft_noise_kept() -> None:
    """Three languages through Whisper base and all the defaults, without a reference."""
    from tests.helpers import verdict_listening as listening
    from tests.helpers.verdict_clips import Said, carriers
    from tests.helpers.verdict_sounds import MADE, mixed

    found: dict[float, list[str | None]] = {}
    clips = []
    for number, said in enumerate(carriers(3)):
        noise = MADE["white"](np.random.default_rng(number), len(said.samples))
        for snr in (30.0, -7.0):
            loud = mixed(said.samples, noise, snr)
            clips.append(Said(said.name, "mixed", "white", loud, said.language, said.text, snr))
    for row in listening.hear(clips):
        found.setdefault(row.snr or 0, []).append(listening.reason(row.values))
    assert found[30.0] == [None] * 3
    assert None not in found[-7.0]
