"""The level rule of Emilia-Pipe: at most 3 dB towards -20 dBFS, then the peak to full scale.

The gain g = clip(-20 - dBFS, -3, 3) dB is applied to int16 samples with saturation, and the result
divided by its peak. So the peak is always at full scale (a sine ends at -3.0 dBFS from any level),
and the gain only affects what int16 rounds and clips: nothing for a loud utterance, whose gain is
negative; a quiet one with high peaks is clipped.

dBFS is pydub's, 20 log10(RMS / 32768) with the RMS rounded down to a whole number; products are
rounded down. Emilia does this once to the whole recording, and scales each clip to full scale again
on writing; here it is done per utterance. Silence stays silence; in Emilia it becomes NaN.
"""

import math

import numpy as np

from ..base.arrays import Float32s
from ..settings import StageSettings

VERSION = 1
TARGET_DB, MOST_DB = -20.0, 3.0  # dBFS, dB
FULL = 32768.0
Settings = StageSettings  # none: the rule is fixed


def apply(samples: Float32s, rate: int, settings: Settings) -> Float32s:
    whole = np.clip(np.rint(samples.astype(np.float64) * FULL), -FULL, FULL - 1)
    rms = math.floor(math.sqrt(float(np.mean(whole * whole))))
    wanted = TARGET_DB - 20 * math.log10(rms / FULL) if rms else math.inf
    gain = 10 ** (min(max(wanted, -MOST_DB), MOST_DB) / 20)
    louder = np.floor(np.clip(whole * gain, -FULL, FULL - 1))
    peak = float(np.abs(louder).max())
    if peak == 0:
        return np.zeros_like(samples)
    return (louder / peak).astype(np.float32)
