"""Drops texts of which many words are probably wrong, by the recogniser's own scores.

    expected_wer = 1 / (1 + exp(-(A + B l + C l / (n + 1))))        l: avg_logprob, n: words

A logistic regression of the share of wrong words (of characters, where a script has no spaces)
on the mean log-probability of the tokens, whose weight falls with the length of the text. Fitted
to 368 texts of Whisper base from 15 sources in English, German, Spanish and Mandarin: as recorded,
and with noise, music or a second voice, by telephone, from afar and 1.4 times higher. Of sources
that the fit did not see:

    expected   < 0.1    0.1-0.15   0.15-0.2   0.2-0.3   0.3-0.5   0.5-0.7   more
    wrong      0.05     0.14       0.20       0.27      0.42      0.52      0.63

The default limit drops half of the texts with more than 30 % of words wrong that `confidence` keeps
(21.5 % of what is kept, then 11.7 %), 2 % of all right ones, and none of 38 right ones of clean
speech. Texts of fewer words than LEAST have no estimate: of single digits half are wrong, and the
scores do not tell which. Scores of recognisers other than Whisper have other scales: without its
compression ratio there is no estimate. Where the source has a text, the real rate is known, and
`error_rate` judges it.
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
A, B, C = -3.345, -5.695, 2.944


class Settings(StageSettings):
    max: float | None = Threshold(
        0.3, "Largest share of words that are probably wrong; null: any.", ge=0, le=1
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
