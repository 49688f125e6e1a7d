"""Drops utterances whose source's text is not what is said, by how its words fit the sound.

For `transcribe.reference_words`: each word of the text has a probability from the model that aligns
it. An utterance without a source's text, or whose text was not aligned, has none and is never
rejected. Each model has a scale of its own: look at the report's chart of the column before you
choose a limit.
"""

from __future__ import annotations

from ..plugins.rules import Limit, Rule
from ..settings import StageSettings, Threshold
from . import ScoredTranscript

DOUBTFUL = 0.1
COLUMNS = {
    "reference_confidence": ("1", "how well that text fits: mean probability of its words"),
    "reference_confidence_word": ("1", "probability of the least sure word of the source's text"),
    "reference_confidence_doubtful": ("1", "share of its words whose probability is below 0.1"),
}
ALIGNED = True


class Settings(StageSettings):
    min: float | None = Threshold(0.3, "Least mean probability of its words kept.", ge=0, le=1)
    min_word: float | None = Threshold(None, "Least probability kept of any word.", ge=0, le=1)
    max_doubtful: float | None = Threshold(
        None, "Largest share kept of words whose probability is below 0.1.", ge=0, le=1
    )


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    sure = [probability for probability in heard.aligned or () if probability is not None]
    if not sure:
        return dict.fromkeys(COLUMNS)
    return {
        "reference_confidence": sum(sure) / len(sure),
        "reference_confidence_word": min(sure),
        "reference_confidence_doubtful": sum(one < DOUBTFUL for one in sure) / len(sure),
    }


def verdict(settings: Settings) -> tuple[Rule, ...]:
    reason = "reference_not_said"
    return (
        Limit("reference_confidence", min=settings.min, low=reason),
        Limit("reference_confidence_word", min=settings.min_word, low=reason),
        Limit("reference_confidence_doubtful", max=settings.max_doubtful, high=reason),
    )
