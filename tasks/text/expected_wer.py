"""Drops texts of which many words are probably wrong, by the recogniser's own scores.

    expected_wer = 1 / (1 + exp(-(A + B l + C l / (n + 1))))        l: avg_logprob, n: words

A logistic regression of the share of wrong words (of characters, where a script has no spaces)
on the mean log-probability of the tokens, whose weight grows with the length of the text. Fitted to
368 texts of Whisper base in English, German, Spanish and Mandarin; C was then raised (it was 3),
because nearly all clips of a source with texts of three words were dropped. On 172 other texts
(`tests/bench/transcribe.py`, part calibration):

    expected   < 0.05   0.05-0.1   0.1-0.15   0.15-0.2   0.2-0.25   0.25-0.3   0.3-0.5   more
    wrong      0.06     0.07       0.16       0.20       0.35       0.37       0.44      0.52

The default limit drops half of the texts with more than 30 % of words wrong that the other rules
keep, and 3 of 91 right ones. Texts of fewer words than LEAST, and scores of recognisers other than
Whisper (without its compression ratio), have no estimate. Where the source has a text, `error_rate`
judges it.

Clips with less than 0.7 s of speech have a measure of their own, in nats, since a word that was
misheard may have good scores, but when it is heard slower it is often another one:

    evidence = ln(text_probability + FLOOR) + avg_logprob + 2 ln(1 - no_speech_probability)

`text_probability` is the mean probability of their words in two hearings of Whisper
(`tasks/asr/_whisper/short_clips.py`).
"""

from math import exp, log

from . import Limit, Rule, ScoredTranscript, StageSettings, Threshold, Within

COLUMNS = {
    "expected_wer": ("1", "share of words that are probably wrong, by the recogniser's scores"),
    "expected_wer_evidence": (
        "nats",
        "log-probability of the words of a short clip, by two hearings",
    ),
}
LEAST = 3  # words
A, B, C = -3.345, -5.695, 8.0
FLOOR = 0.005  # of a short clip's text: the likeliest spellings are not all
LEAST_SPEECH = 1e-6  # so that its logarithm is finite


class Settings(StageSettings):
    max: float | None = Threshold(
        0.25, "Largest share of words that are probably wrong; null: any.", ge=0, le=1
    )
    min_evidence: float | None = Threshold(
        -6.0, "Least log-probability of the words of a clip with less than 0.7 s of speech, nats."
    )


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    return {"expected_wer": _expected(heard), "expected_wer_evidence": _evidence(heard)}


def _expected(heard: ScoredTranscript) -> float | None:
    count = len(heard.heard_words)
    by_whisper = (heard.compression_ratio or -1) >= 0
    if heard.avg_logprob is None or not by_whisper or count < LEAST:
        return None
    score = min(heard.avg_logprob, 0.0)
    return 1 / (1 + exp(-(A + B * score + C * score / (count + 1))))


def _evidence(heard: ScoredTranscript) -> float | None:
    if heard.text_probability is None or heard.avg_logprob is None:
        return None
    speech = max(1 - (heard.no_speech_probability or 0.0), LEAST_SPEECH)
    return log(heard.text_probability + FLOOR) + heard.avg_logprob + 2 * log(speech)


def verdict(settings: Settings) -> tuple[Rule, ...]:
    s, why, unless = settings, "text_doubtful", (Within("wer"),)
    return (
        Limit("expected_wer", max=s.max, high=why, unless=unless),
        Limit("expected_wer_evidence", min=s.min_evidence, low=why, unless=unless),
    )
