"""Scale the loudest sample to a level in dBFS. Silence stays silence."""

import numpy as np
from pydantic import Field

from ..base.arrays import Float32s
from ..settings import StageSettings

VERSION = 1


class Settings(StageSettings):
    target_db: float = Field(-1.0, ge=-60, le=0, description="Level of the loudest sample, dBFS.")


def apply(samples: Float32s, rate: int, settings: Settings) -> Float32s:
    peak = float(np.abs(samples).max())
    if peak == 0:
        return samples.copy()
    # In float64, as the gain of a tiny peak overflows float32.
    scaled = samples.astype(np.float64) * (10 ** (settings.target_db / 20) / peak)
    return scaled.astype(np.float32)
