"""Dead channels: the level of the strongest channel above the weakest, in dB.

Levels are RMS without the constant offset, so a channel stuck at one value is dead, as is one with
only hiss far below the others. Digital silence counts as -200 dBFS. Null for one channel; 0 if all
are silent (see `silence`).
"""

import numpy as np

from ..audio import Clip
from ..settings import StageSettings, Threshold
from ._derived import FLOOR_DB, levels

VERSION = 1
COLUMNS = {"dead_channel": ("dB", "level of the strongest channel above the weakest one")}
REASONS = {"dead_channel": ("even_channels", "dead_channel")}


class Settings(StageSettings):
    min: float | None = Threshold(None, "Smallest difference kept, dB.", ge=0)
    max: float | None = Threshold(60.0, "Largest difference kept, dB.", ge=0)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    measured = levels(clip)
    if measured is None or len(clip.in_mix) < 2:
        return {"dead_channel": None}
    level = 10 * np.log10(np.maximum(measured.variance, 10 ** (FLOOR_DB / 10)))
    return {"dead_channel": float(level.max() - level.min())}
