"""Drops utterances whose source's text is not what is said, by how its words fit the sound.

For `transcribe.reference_words`: each word of the text has a probability from the model that aligns
it, on a scale of its own: look at the report's chart before you choose a limit. An utterance
without a source's text, or whose text was not aligned, is never rejected.
"""

from . import ScoredTranscript, StageSettings, Threshold

DOUBTFUL = 0.1
COLUMNS = {
    "reference_confidence": ("1", "how well that text fits: mean probability of its words"),
    "reference_confidence_word": ("1", "probability of the least sure word of the source's text"),
    "reference_confidence_doubtful": ("1", "share of its words whose probability is below 0.1"),
}
REASONS = dict.fromkeys(COLUMNS, ("reference_not_said", "reference_not_said"))
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
