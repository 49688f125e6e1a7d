"""Share of an utterance in which two voices or more speak at once, by the turns of `speakers`.

Null without diarization.
"""

from ..audio import Clip
from ..recording import turns
from ..settings import StageSettings, Threshold

VERSION = 1
AFTER_ALL = True
COLUMNS = {"overlap": ("1", "share of the utterance in which two voices or more speak")}
REASONS = {"overlap": ("no_overlap", "overlap")}


class Settings(StageSettings):
    """Limits on the share; clips that are cut at turns have next to none."""

    min: float | None = Threshold(None, "Smallest share kept.", ge=0, le=1)
    max: float | None = Threshold(0.1, "Largest share kept.", ge=0, le=1)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if clip.turns is None or not clip.num_samples:
        return {"overlap": None}
    both = sum(end - start for start, end in turns.overlap(clip.turns))
    return {"overlap": both / clip.num_samples}
