"""Native sample rate of the recording, in Hz, as decoded.

The column is not called `sample_rate`, which is the rate of the packaged audio. Whether the audio
uses the rate is another question: see `bandwidth`.
"""

from ..audio import Clip
from ..settings import StageSettings, Threshold

VERSION = 1
COLUMNS = {"sample_rate_native": ("Hz", "sample rate of the recording")}
REASONS = {"sample_rate_native": ("low_rate", "high_rate")}


class Settings(StageSettings):
    min_native: int | None = Threshold(None, "Lowest rate kept, Hz.", ge=1)
    max_native: int | None = Threshold(None, "Highest rate kept, Hz.", ge=1)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"sample_rate_native": float(clip.rate)}
