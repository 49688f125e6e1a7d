"""resampy, kaiser_best: the default resampler of librosa before 0.10, for older recipes."""

import numpy as np

from ..base.arrays import Float32s
from ..settings import StageSettings

VERSION = 1
ENGINES = {"resampy": "resample"}
Settings = StageSettings  # none


def resample(samples: Float32s, src_hz: int, dst_hz: int, settings: Settings) -> Float32s:
    """float32 [n] to float32 [about n * dst / src]."""
    # Imports Numba (0.5 s): not for checking settings. Workers preload it.
    import resampy

    # Padded, because resampy rounds its length down and refuses a clip that would give no sample.
    padded = np.pad(samples, (0, -(-src_hz // dst_hz)))
    result = resampy.resample(padded, src_hz, dst_hz, filter="kaiser_best")
    length = -(-len(samples) * dst_hz // src_hz)
    return np.asarray(result[:length], dtype=np.float32)
