"""Drops utterances in another language than wanted, or whose language is a guess.

The clips of a recording vote on its language (`tasks/shard_store/language_vote.py`): a clip in the
elected language has at least the probability of the vote.

Whisper base gives music and noise no language with more than 0.6 (`python -m tests.bench.verdicts
language`). Short, plain sentences may stay below that though every word is right, so a text that
the recogniser is sure of is kept. A language stated by the source has no probability. It is
contradicted only if the recogniser is nearly certain of another language and unsure of its text in
the stated one. Nothing is rejected if a reference confirms the text.

Where a source states no language, all its clips tell which languages it has
(`_source_languages.py`), and a clip whose language is unlikely among them is dropped when a version
is packaged, however sure its text is. What is published stays.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from pydantic import field_validator

from tasks.base.arrays import Float64s, Int32s, Int64s
from tasks.base.json_types import JsonObject
from tasks.plugins.contracts.corpuswide import Rows
from tasks.plugins.rules import Allowed, Limit, Rejection, Rule
from tasks.settings import Threshold
from tasks.settings.base import WORDS
from tasks.text import Exemption, sure
from tasks.text._source_languages import COLUMNS as ASKED
from tasks.text._source_languages import SourceLanguages

BY_EAR = True


class Settings(Exemption):
    allowed: tuple[str, ...] | None = Threshold(
        None, "Languages to keep, ISO 639-1 codes; none given: any.", min_length=1, mark=WORDS
    )
    min_probability: float = Threshold(
        0.6, "Least probability of the detected language; Emilia's is 0.8.", ge=0, le=1
    )
    unless_logprob: float | None = Threshold(
        -0.5,
        "A mean log-probability of this or more confirms the language; null: none does.",
        le=0,
    )

    max_contradiction: float | None = Threshold(
        0.95,
        "Most probability of another language than the source states, unless the "
        "text is sure (unless_logprob); null: any.",
        ge=0,
        le=1,
    )

    min_in_source: float | None = Threshold(
        0.5,
        "Least probability of the detected language among those of the clip's source, even where "
        "the text is sure; null: any.",
        ge=0,
        le=1,
    )

    @field_validator("allowed")
    @classmethod
    def _codes(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for code in value or ():
            # Whisper's codes: two letters, or three as in `yue` and `haw`.
            if not (code.isascii() and code.isalpha() and code.islower() and len(code) in (2, 3)):
                raise ValueError(
                    f"{code!r} is not a language code; write codes such as en, es or yue"
                )
        return value


def verdict(settings: Settings) -> tuple[Rule, ...]:
    s = settings
    unless = (*sure(s.unless_logprob), *s.confirmed)
    uncertain, contradicted = "language_uncertain", "language_contradicted"
    limits = (
        Limit("language_probability", min=s.min_probability, low=uncertain, unless=unless),
        Limit("language_contradiction", max=s.max_contradiction, high=contradicted, unless=unless),
    )
    if s.allowed is None:
        return limits
    return (Allowed("language", s.allowed, "wrong_language"), *limits)


def reject(
    rows: Rows, settings: Settings, frozen: JsonObject
) -> tuple[Iterable[tuple[int, Rejection]], None]:
    """Rejections of kept rows in languages that are unlikely in their sources."""
    if settings.min_in_source is None:
        return (), None
    heard = SourceLanguages.of(rows.tables(*ASKED))
    probability, against = heard.judged()
    unlikely = np.flatnonzero(heard.kept & (probability < settings.min_in_source))
    unlikely = unlikely[~rows.published(unlikely)]
    return _rejections(heard, unlikely, probability, against, settings.min_in_source), None


def _rejections(
    heard: SourceLanguages, rows: Int64s, probability: Float64s, against: Int32s, least: float
) -> Iterator[tuple[int, Rejection]]:
    for row in rows.tolist():
        language = heard.pairs[heard.pair[row]][1]
        reason, detail = "language_uncertain", language
        if probability[row] < heard.probability[row]:
            other = int(against[row])
            reason = "language_unlikely" if other >= 0 else "language_unknown"
            rather = heard.pairs[other][1] if other >= 0 else "none that is known"
            detail = f"{language}, in this source rather {rather}"
        yield row, Rejection(reason, float(probability[row]), least, detail)
