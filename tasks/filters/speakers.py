"""How many people speak in an utterance, by the turns of `speakers`: those with 0.25 s or more.

Null without diarization.
"""

from ..audio import Clip
from ..recording.turns import voices_in
from ..settings import StageSettings, Threshold

VERSION = 1
AFTER_ALL = True
COLUMNS = {"speakers": ("1", "people who speak in the utterance")}
REASONS = {"speakers": ("few_speakers", "many_speakers")}
LEAST_S = 0.25


class Settings(StageSettings):
    min: float | None = Threshold(None, "Fewest speakers kept.", ge=0)
    max: float | None = Threshold(1, "Most speakers kept.", ge=0)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if clip.turns is None:
        return {"speakers": None}
    heard = voices_in(clip.turns, 0, clip.num_samples)
    return {"speakers": float(sum(n >= LEAST_S * clip.rate for n in heard.values()))}
