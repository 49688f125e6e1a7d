"""Rules on text, applied to what the transcribe stage stored.

Their contract is `tasks.plugins.contracts.text`.
"""

from ..plugins.contracts.base import Rows
from ..plugins.contracts.text import ScoredTranscript, words
from ..plugins.rules import Allowed, Limit, Rejection, Rule, Within
from ..settings import StageSettings, Threshold
from ..settings.base import WORDS


class Exemption(StageSettings):
    """Base of the settings of rules that doubt a transcript unless a reference confirms it."""

    unless_wer: float | None = Threshold(
        0.5,
        "A reference that agrees within this word error rate (characters, where a "
        "script has no spaces) confirms what was heard; null: none does.",
        ge=0,
    )

    @property
    def confirmed(self) -> tuple[Within, ...]:
        """For `Limit.unless`: unrelated texts hardly share half of their words."""
        return () if self.unless_wer is None else (Within("wer", max=self.unless_wer),)


def sure(least: float | None) -> tuple[Within, ...]:
    """For `Limit.unless`: the recogniser was sure of its text, by the mean log-probability."""
    return () if least is None else (Within("avg_logprob", min=least),)
