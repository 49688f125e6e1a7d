"""resampy, kaiser_best: the resampler that older librosa recipes were trained with."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tasks.settings import StageSettings

VERSION = 1


class Settings(StageSettings):
    pass


def resample(
    samples: NDArray[np.float32], src_hz: int, dst_hz: int, settings: Settings
) -> NDArray[np.float32]:
    """float32 [n] to float32 [about n * dst / src]."""
    # Numba comes with it (0.5 s): checking settings must not wait for that. Workers preload it.
    import resampy

    # It rounds its length down and refuses a clip that would give no sample at all.
    padded = np.pad(samples, (0, -(-src_hz // dst_hz)))
    result = resampy.resample(padded, src_hz, dst_hz, filter="kaiser_best")
    due = -(-len(samples) * dst_hz // src_hz)
    return np.asarray(result[:due], dtype=np.float32)
