"""libsoxr, high quality: the default. Stop band below -100 dB, linear phase, fast."""

from collections.abc import Iterator
from functools import partial

import numpy as np
import soxr

from ..base.arrays import Float32s
from ..settings import StageSettings

__all__ = ["VERSION", "Settings", "resample", "stream"]

VERSION = 1
Settings = StageSettings  # none


def resampled(
    quality: str, samples: Float32s, src_hz: int, dst_hz: int, settings: Settings
) -> Float32s:
    """float32 [n] to float32 [n * dst / src, within one]; `quality`: libsoxr's name."""
    result: Float32s = soxr.resample(samples, src_hz, dst_hz, quality=quality)
    return result


def streamed(
    quality: str, blocks: Iterator[Float32s], src_hz: int, dst_hz: int, settings: Settings
) -> Iterator[Float32s]:
    """As `resampled`, for clips too long to hold twice; any blocks in, blocks out."""
    engine = soxr.ResampleStream(src_hz, dst_hz, 1, dtype="float32", quality=quality)
    for block in blocks:
        yield engine.resample_chunk(block)
    yield engine.resample_chunk(np.zeros(0, np.float32), last=True)


resample, stream = partial(resampled, "HQ"), partial(streamed, "HQ")
