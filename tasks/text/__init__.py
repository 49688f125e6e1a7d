"""Shelf of verdicts on text, over what the transcribe stage stored. A plug-in has

    class Settings(StageSettings)               # all THRESHOLD
    def verdict(settings) -> tuple[Rule, ...]   # tasks.plugins.rules: limits on columns

and, where those columns are its own numbers and not the recogniser's,

    COLUMNS: dict[str, tuple[unit, meaning]]    # named as the plug-in, or <plug-in>_<part>
    def measure(heard: Heard, settings) -> dict[str, float | None]

`measure` gives every column of COLUMNS, None where there is nothing to judge: a null is never
rejected. It is pure, cheap (tens of microseconds) and takes any text; it runs again at every run,
so nothing of it is stored but the columns of `utterances.parquet`, and a setting that changes what
it says costs no transcript.

    def decide(rows, settings, frozen)          # optional: over the whole corpus, tasks.corpuswide

Columns that are always there: text_chars, language, language_probability, avg_logprob,
no_speech_probability, compression_ratio, wer, cer. Recognisers that give no scores leave nulls.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property

from pydantic import Field

from tasks.plugins.rules import Within
from tasks.scoring import UNSPACED
from tasks.settings import THRESHOLD, StageSettings

_WORD = re.compile(rf"[{UNSPACED}]|(?:[^\W_{UNSPACED}]|(?<=\w)['’](?=\w))+")


@dataclass(frozen=True)
class Heard:
    """One transcript as a verdict sees it. Probabilities in 0..1, log-probability in nats a token,
    wer and cer as fractions of the reference; null: not known."""

    text: str  # to train on
    text_source: str  # reference or asr: where `text` is from
    seconds: float  # of audio
    hypothesis: str | None = None  # what was heard; null: nobody listened
    reference: str | None = None  # what the source says
    normalised: str | None = None  # the hypothesis as it is compared with
    reference_normalised: str | None = None  # the reference
    language: str | None = None
    language_probability: float | None = None
    avg_logprob: float | None = None
    no_speech_probability: float | None = None
    compression_ratio: float | None = None
    wer: float | None = None
    cer: float | None = None
    listened: bool = True  # False: nobody did, or `fake` did

    @cached_property
    def words(self) -> list[str]:
        """Words of `text` without case and punctuation; of scripts without spaces, characters."""
        return words(self.text)


def words(text: str) -> list[str]:
    """ "No, it's 你好!" -> no, it's, 你, 好."""
    return _WORD.findall(text.casefold())


class Spares(StageSettings):
    """Base of verdicts that doubt what was heard: not where a reference says the same."""

    unless_wer: float | None = Field(
        0.5, ge=0, json_schema_extra=THRESHOLD,
        description="A reference that agrees within this word error rate (characters, where a "
        "script has no spaces) confirms what was heard; null: none does.",
    )  # fmt: skip

    @property
    def confirmed(self) -> tuple[Within, ...]:
        """For `Limit.unless`. Unrelated texts hardly share half of their words."""
        return () if self.unless_wer is None else (Within("wer", max=self.unless_wer),)
