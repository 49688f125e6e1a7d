"""libsamplerate, sinc_best: a signal-to-noise ratio of 144 dB, slow."""

import numpy as np
import samplerate

from ..base.arrays import Float32s
from ..settings import StageSettings

VERSION = 1
Settings = StageSettings  # none


def resample(samples: Float32s, src_hz: int, dst_hz: int, settings: Settings) -> Float32s:
    """float32 [n] to float32 [about n * dst / src]."""
    result = samplerate.resample(samples, dst_hz / src_hz, "sinc_best")
    return np.asarray(result, dtype=np.float32)
