"""Integrated loudness (ITU-R BS.1770-4) to a target, as far as a ceiling for the peak allows.

One gain for the whole utterance, limited so that no sample exceeds the ceiling: then the utterance
stays below the target, and nothing is clipped. The ceiling applies to samples, not to the true peak
between them. An utterance without a loudness is not changed: every block below -70 LUFS, or a rate
below 8 kHz. `tasks/filters/loudness.py` has the formulas.
"""

import numpy as np
from pydantic import Field

from ..audio import Clip
from ..base.arrays import Float32s
from ..filters import loudness
from ..settings import StageSettings

VERSION = 1


class Settings(StageSettings):
    target_lufs: float = Field(-23.0, ge=-60, le=0, description="Integrated loudness, LUFS.")
    ceiling_db: float = Field(-1.0, ge=-60, le=0, description="Highest sample allowed, dBFS.")


def apply(samples: Float32s, rate: int, settings: Settings) -> Float32s:
    measured = loudness.measure(Clip.from_samples(samples, rate), loudness.Settings())["loudness"]
    if measured is None or measured <= loudness.GATE:
        return samples.copy()
    gain = 10 ** ((settings.target_lufs - measured) / 20)
    ceiling = 10 ** (settings.ceiling_db / 20) * (1 - 2**-22)  # slightly lower, as float32 rounds
    gain = min(gain, ceiling / float(np.abs(samples).max()))
    return (samples.astype(np.float64) * gain).astype(np.float32)
