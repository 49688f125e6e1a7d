"""libsoxr at any quality, for `soxr_hq` and `soxr_vhq`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import soxr
from numpy.typing import NDArray


def resample(
    samples: NDArray[np.float32], src_hz: int, dst_hz: int, quality: str
) -> NDArray[np.float32]:
    """float32 [n] to float32 [n * dst / src, within one]."""
    result: NDArray[np.float32] = soxr.resample(samples, src_hz, dst_hz, quality=quality)
    return result


def stream(
    blocks: Iterable[NDArray[np.float32]], src_hz: int, dst_hz: int, quality: str
) -> Iterator[NDArray[np.float32]]:
    """As `resample`, for clips too long to hold twice; any blocks in, blocks out."""
    engine = soxr.ResampleStream(src_hz, dst_hz, 1, dtype="float32", quality=quality)
    for block in blocks:
        yield engine.resample_chunk(block)
    yield engine.resample_chunk(np.zeros(0, np.float32), last=True)
