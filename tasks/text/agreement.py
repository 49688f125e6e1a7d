"""Drops utterances on whose text several recognisers do not agree.

For `transcribe.backends` with two or more. Every pair is compared by words, or by characters if a
script has no spaces; each rate is edits over the longer text. Null with a single text, which is
never rejected. Limits may differ by language (`by_language`).
"""

from collections.abc import Mapping

from ..scoring import UNSPACED_CHARACTER, agreement
from . import WORDS, Limit, Rule, ScoredTranscript, StageSettings, Threshold

COLUMNS = {
    "agreement": ("1", "1 − mean rate of errors between two recognisers, over all pairs"),
    "agreement_wer": ("1", "mean word error rate between two recognisers, over all pairs"),
    "agreement_cer": ("1", "mean character error rate between two recognisers, over all pairs"),
    "agreement_worst": ("1", "largest rate of errors between two recognisers"),
    "agreement_votes": ("1", "mean share of recognisers that are for a word of their vote (ROVER)"),
}


class Settings(StageSettings):
    min: float | None = Threshold(0.8, "Least agreement kept.", ge=0, le=1)
    by_language: Mapping[str, float] = Threshold(
        {}, "Least agreement kept of a language, by its code, in place of `min`.", mark=WORDS
    )
    max_worst: float | None = Threshold(None, "Largest rate of errors kept between any two.", ge=0)
    min_votes: float | None = Threshold(None, "Smallest mean share of votes kept.", ge=0, le=1)


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    if len(heard.hypotheses) < 2:
        return dict.fromkeys(COLUMNS)
    pairs = agreement.rates([text for _, text in heard.hypotheses], heard.language)
    wer, cer = (sum(pair[side] for pair in pairs) / len(pairs) for side in (0, 1))
    whole = "".join(normalised for _, normalised in heard.hypotheses)
    side = int(2 * len(UNSPACED_CHARACTER.findall(whole)) > sum(map(str.isalpha, whole)))
    return {
        "agreement": 1.0 - (wer, cer)[side],
        "agreement_wer": wer,
        "agreement_cer": cer,
        "agreement_worst": max(pair[side] for pair in pairs),
        "agreement_votes": agreement.rover([text for text, _ in heard.hypotheses]).confidence,
    }


def verdict(settings: Settings) -> tuple[Rule, ...]:
    by_language = dict(sorted(settings.by_language.items()))
    return (
        Limit("agreement", min=settings.min, low="disagreement", other_than=tuple(by_language)),
        *(
            Limit("agreement", min=least, low="disagreement", languages=(code,))
            for code, least in by_language.items()
        ),
        Limit("agreement_worst", max=settings.max_worst, high="disagreement"),
        Limit("agreement_votes", min=settings.min_votes, low="disagreement"),
    )
