"""Share of an utterance that is speech, by the Silero voice activity detector (v6).

In: the channel mean at 16 kHz in windows of 32 ms, the last one padded with zeros. A window is
speech if its probability is at least `threshold`. The model's state starts at the clip's first
sample, not the recording's.
"""

import numpy as np
from pydantic import Field

from ..audio import Clip
from ..settings import StageSettings, Threshold
from . import _derived as derived
from ._derived import model_bytes as model_bytes

VERSION = 1
COLUMNS = {"speech_ratio": ("1", "share of the 32 ms windows that are speech")}
REASONS = {"speech_ratio": ("little_speech", "all_speech")}


class Settings(StageSettings):
    threshold: float = Field(
        0.5, ge=0, le=1, description="Windows of this probability or more are speech."
    )
    min: float | None = Threshold(None, "Smallest share kept.", ge=0, le=1)
    max: float | None = Threshold(None, "Largest share kept.", ge=0, le=1)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    with np.errstate(invalid="ignore"):  # infinite samples are refused elsewhere
        probabilities = derived.speech_probabilities(clip)
    return {
        "speech_ratio": float((probabilities >= settings.threshold).mean())
        if len(probabilities)
        else None
    }
