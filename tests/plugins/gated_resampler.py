"""The resampler `soxr_hq` behind a gate."""

import numpy as np
from numpy.typing import NDArray

from tests.plugins import gate
from uttermill.tasks.resamplers import soxr_hq

VERSION = soxr_hq.VERSION
Settings = soxr_hq.Settings


def resample(
    samples: NDArray[np.float32], src_hz: int, dst_hz: int, settings: soxr_hq.Settings
) -> NDArray[np.float32]:
    gate.wait("resample", len(samples) / src_hz)
    return soxr_hq.resample(samples, src_hz, dst_hz, settings)
