"""Sample peak, in dBFS: 20 log10 of the largest magnitude in any channel; full scale is 1.

Digital silence is -200. This is not a true peak: peaks between samples are not measured.
"""

from ..audio import Clip
from ..settings import StageSettings, Threshold
from ._derived import decibels, levels

VERSION = 1
COLUMNS = {"peak": ("dBFS", "largest magnitude of a sample of any channel")}
REASONS = {"peak": ("too_quiet", "too_loud")}


class Settings(StageSettings):
    min: float | None = Threshold(None, "Lowest peak kept, dBFS.")
    max: float | None = Threshold(None, "Highest peak kept, dBFS.")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    level = levels(clip)
    return {"peak": None if level is None else decibels(level.peak**2)}
