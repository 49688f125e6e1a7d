"""libsoxr, very high quality: for targets above 16 bits; slower than `soxr_hq`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from tasks.resamplers import _soxr
from tasks.settings import StageSettings

VERSION = 1


class Settings(StageSettings):
    pass


def resample(
    samples: NDArray[np.float32], src_hz: int, dst_hz: int, settings: Settings
) -> NDArray[np.float32]:
    return _soxr.resample(samples, src_hz, dst_hz, "VHQ")


def stream(
    blocks: Iterable[NDArray[np.float32]], src_hz: int, dst_hz: int, settings: Settings
) -> Iterator[NDArray[np.float32]]:
    return _soxr.stream(blocks, src_hz, dst_hz, "VHQ")
