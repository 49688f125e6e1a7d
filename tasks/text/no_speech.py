"""Drops utterances that the recogniser considers not to be speech.

Whisper's rule (Radford et al. 2022, arXiv 2212.04356, section 4.5): silence where the probability
of no speech is above 0.6 and the mean log-probability below -1.0; neither alone means silence.
"""

from __future__ import annotations

from pydantic import Field

from tasks.plugins.rules import Limit, Rule, Within
from tasks.settings import THRESHOLD
from tasks.text import Exemption


class Settings(Exemption):
    max: float | None = Field(
        default=0.6,
        ge=0,
        le=1,
        json_schema_extra=THRESHOLD,
        description="Largest probability of no speech.",
    )
    unless_logprob: float | None = Field(
        default=-1.0,
        le=0,
        json_schema_extra=THRESHOLD,
        description="A mean log-probability from here on says that it is speech; null: none does.",
    )


def verdict(settings: Settings) -> tuple[Rule, ...]:
    sure = settings.unless_logprob
    likely = () if sure is None else (Within("avg_logprob", min=sure),)
    unless = (*likely, *settings.confirmed)
    return (Limit("no_speech_probability", max=settings.max, high="no_speech", unless=unless),)
