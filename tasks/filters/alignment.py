"""How well the text that `aligned` found for an utterance agrees with what was heard there.

The number of its words that the recogniser heard in order, as a share of the longer text, or of
letters if that is higher: 1 if all were heard and nothing else. Null for utterances that were not
cut by their text.
"""

from ..audio import Clip
from ..settings import StageSettings, Threshold

VERSION = 1
AFTER_ALL = True
COLUMNS = {
    "alignment": ("1", "share of the text's words, or letters, that were heard in the utterance")
}
REASONS = {"alignment": ("misaligned", "aligned")}


class Settings(StageSettings):
    min: float | None = Threshold(0.7, "Smallest share kept.", ge=0, le=1)
    max: float | None = Threshold(None, "Largest share kept.", ge=0, le=1)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"alignment": clip.match}
