"""Number of channels of the recording."""

from ..audio import Clip
from ..settings import StageSettings, Threshold

VERSION = 1
COLUMNS = {"channels": ("1", "channels as decoded")}
REASONS = {"channels": ("too_few_channels", "too_many_channels")}


class Settings(StageSettings):
    min: int | None = Threshold(None, "Fewest channels kept.", ge=1)
    max: int | None = Threshold(None, "Most channels kept.", ge=1)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"channels": float(clip.channels)}
