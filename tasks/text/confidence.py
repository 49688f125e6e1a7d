"""Drops texts that are likely wrong: speech buried in noise, music or other voices.

    confidence = avg_logprob + ln(language_probability) + ln(1 - no_speech_probability)
                 + ALLOWANCE / (n + 1),    n = max(words, WORDS_PER_SECOND * seconds)

The first three, in nats, say how likely the recogniser thinks a token of the text, its language,
and that anybody speaks. Noise pulls down all three, while a recogniser that invents a fluent
sentence is sure of its tokens; so the sum finds more than a limit on each. A score that is not
known adds nothing: a language that the source states has no probability. Without `avg_logprob`
there is no confidence.

Short clips get an allowance. The end of the text and a full stop are tokens too, uncertain without
context, and a single word in a window of 30 s looks like silence. Words are those of what was heard
(characters, where a script has no spaces). A long clip with one word gets little: noise has those.

`python -m tests.bench.verdicts worthless` shows what each limit costs and finds.
"""

from __future__ import annotations

from math import log

from pydantic import Field

from tasks.rules import Limit, Rule
from tasks.settings import THRESHOLD
from tasks.text import Heard, Spares, words

COLUMNS = {
    "confidence": ("nats", "log-probability of text, language and speech; more in short clips"),
}
ALLOWANCE = 3.0  # nats
WORDS_PER_SECOND = 2.0  # of slow speech
LEAST = 1e-6  # of a probability, so that its logarithm is finite


class Settings(Spares):
    min: float | None = Field(
        default=-1.0, json_schema_extra=THRESHOLD,
        description="Least sum of log-probabilities, nats; short clips get an allowance.",
    )  # fmt: skip


def measure(heard: Heard, settings: Settings) -> dict[str, float | None]:
    if heard.avg_logprob is None:
        return {"confidence": None}
    said = len(words(heard.hypothesis or ""))
    total = heard.avg_logprob + ALLOWANCE / (max(said, WORDS_PER_SECOND * heard.seconds) + 1)
    if heard.language_probability is not None:
        total += log(max(heard.language_probability, LEAST))
    if heard.no_speech_probability is not None:
        total += log(max(1 - heard.no_speech_probability, LEAST))
    return {"confidence": total}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (
        Limit("confidence", min=settings.min, low="low_confidence", unless=settings.confirmed),
    )  # fmt: skip
