"""Constant (DC) offset, as a broken sound card adds it: the mean of the samples; full scale is 1.

The worst channel counts, so that offsets of opposite sign do not cancel.
"""

from ..audio import Clip
from ..settings import StageSettings, Threshold
from ._derived import levels

VERSION = 1
COLUMNS = {"dc_offset": ("1", "largest magnitude of the mean of a channel; full scale is 1")}
REASONS = {"dc_offset": ("no_dc_offset", "dc_offset")}


class Settings(StageSettings):
    min: float | None = Threshold(None, "Smallest offset kept, of full scale.", ge=0)
    max: float | None = Threshold(0.1, "Largest offset kept, of full scale.", ge=0)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    level = levels(clip)
    return {"dc_offset": None if level is None else float(abs(level.mean).max())}
