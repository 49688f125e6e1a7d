"""Root mean square over all samples and channels, in dBFS: 10 log10 of the mean square.

Full scale is 1, so a full-scale sine is -3.01 (0 by AES17). Pauses and a constant offset count.
Digital silence throughout is -200.
"""

from ..audio import Clip
from ..settings import StageSettings, Threshold
from ._derived import decibels, levels

VERSION = 1
COLUMNS = {"rms": ("dBFS", "root mean square over all channels; a full-scale sine is -3.01")}
REASONS = {"rms": ("too_quiet", "too_loud")}


class Settings(StageSettings):
    min: float | None = Threshold(None, "Lowest level kept, dBFS.")
    max: float | None = Threshold(None, "Highest level kept, dBFS.")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    level = levels(clip)
    return {"rms": None if level is None else decibels(float(level.power.mean()))}
