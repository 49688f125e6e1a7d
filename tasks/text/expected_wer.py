"""Drops texts of which many words are probably wrong, by the recogniser's own scores.

    expected_wer = 1 / (1 + exp(-(A + B l + C l / (n + 1))))        l: avg_logprob, n: words

A logistic regression of the share of wrong words (of characters, where a script has no spaces)
on the mean log-probability of the tokens, whose weight grows with the length of the text: the few
tokens of a short one are often unlikely and right. Fitted to 140 texts of Whisper base, each with
its language detected and stated, from 11 sources in English, German, Spanish and Mandarin: as
recorded, by telephone at 12 dB, in a room with a reverberation of 0.7 s, in noise and among voices
(`tests/bench/transcribe.py`, part calibration). Of sources that the fit did not see:

    expected   < 0.05   0.05-0.1   0.1-0.15   0.15-0.2   0.2-0.3   0.3-0.5   more
    wrong      0.07     0.06       0.14       0.21       0.28      0.35      0.50

So judged, the default limit drops 68 % of the texts of three words and more that the other rules
keep with more than 30 % of words wrong (26.5 % of what is kept, then 11.7 %), and 7 of 91 right
ones: six are one card of a pack, said in three words, which the fit keeps once it has seen it.
The probabilities of single words, the pace, the compression ratio and the probability of no speech
find no more. Texts of fewer words than LEAST have no estimate: of single digits half are wrong, and
the scores do not tell which. Scores of recognisers other than Whisper have other scales: without
its compression ratio there is no estimate. Where the source has a text, the real rate is known,
and `error_rate` judges it.
"""

from __future__ import annotations

from math import exp

from ..plugins.rules import Limit, Rule, Within
from ..settings import StageSettings, Threshold
from . import ScoredTranscript, words

COLUMNS = {
    "expected_wer": ("1", "share of words that are probably wrong, by the recogniser's scores")
}
LEAST = 3  # words
A, B, C = -3.38, -7.3, 15.8


class Settings(StageSettings):
    max: float | None = Threshold(
        0.25, "Largest share of words that are probably wrong; null: any.", ge=0, le=1
    )


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    count = len(words(heard.hypothesis or ""))
    by_whisper = (heard.compression_ratio or -1) >= 0
    if heard.avg_logprob is None or not by_whisper or count < LEAST:
        return {"expected_wer": None}
    score = min(heard.avg_logprob, 0.0)
    return {"expected_wer": 1 / (1 + exp(-(A + B * score + C * score / (count + 1))))}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (Limit("expected_wer", max=settings.max, high="text_doubtful", unless=(Within("wer"),)),)
