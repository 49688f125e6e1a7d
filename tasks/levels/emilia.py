"""The level rule of Emilia-Pipe: 3 dB at most towards -20 dBFS, then the peak to full scale.

The gain g = clip(-20 - dBFS, -3, 3) dB is applied to int16 samples with saturation, and all is
divided by the loudest. So the peak ends at full scale whatever the gain was (a sine ends at
-3.0 dBFS from any level): the gain only shows in what int16 rounds off and clips. Of a loud
utterance that is nothing, as its gain is negative; a quiet one with high peaks is clipped.

dBFS is that of pydub, 20 log10(RMS / 32768), the RMS cut to a whole number; products are rounded
down. Emilia does this once to the whole recording, before it is cut, and scales each clip to full
scale again when it writes it; here it is done to each utterance. Silence, which becomes NaN there,
stays silence.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from tasks.settings import StageSettings

VERSION = 1
TARGET_DB, MOST_DB = -20.0, 3.0  # dBFS, dB
FULL = 32768.0


class Settings(StageSettings):
    """None: the rule is fixed."""


def apply(samples: NDArray[np.float32], rate: int, settings: Settings) -> NDArray[np.float32]:
    whole = np.clip(np.rint(samples.astype(np.float64) * FULL), -FULL, FULL - 1)
    rms = math.floor(math.sqrt(float(np.mean(whole * whole))))
    wanted = TARGET_DB - 20 * math.log10(rms / FULL) if rms else math.inf
    gain = 10 ** (min(max(wanted, -MOST_DB), MOST_DB) / 20)
    louder = np.floor(np.clip(whole * gain, -FULL, FULL - 1))
    peak = float(np.abs(louder).max())
    if peak == 0:
        return np.zeros_like(samples)
    return (louder / peak).astype(np.float32)
