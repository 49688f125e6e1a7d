"""`librosa.resample` with any of its engines that suppress aliases, to match existing recipes."""

from math import gcd
from typing import Literal

import numpy as np
from pydantic import Field

from ..base.arrays import Float32s
from ..settings import StageSettings

VERSION = 1
ENGINES = {  # before librosa, which may put lazy proxies of them into `sys.modules`
    "samplerate": "resample",
    "resampy": "resample",
    "scipy.signal": "resample_poly",
    "librosa.core.audio": "resample",
}


class Settings(StageSettings):
    res_type: Literal[
        "soxr_vhq",
        "soxr_hq",
        "soxr_mq",
        "kaiser_best",
        "kaiser_fast",
        "sinc_best",
        "sinc_medium",
        "sinc_fastest",
        "fft",
        "polyphase",
    ] = Field(
        "soxr_hq",
        description="Engine, by librosa's name; linear, zero_order_hold, soxr_lq and soxr_qq "
        "are not offered, since they let aliases through.",
    )


def resample(samples: Float32s, src_hz: int, dst_hz: int, settings: Settings) -> Float32s:
    """float32 [n] to float32 [ceil(n * dst / src)], which is librosa's length."""
    # Takes seconds and 90 MB: not for checking settings. Workers preload it.
    from librosa.core.audio import resample as librosa_resample

    # Pad to a whole number of periods of the ratio: at other lengths `fft` stretches time by up to
    # a sample. At least one period, as resampy refuses a clip that would give no sample.
    step = src_hz // gcd(src_hz, dst_hz)
    padded = np.pad(samples, (0, step + -len(samples) % step))
    result = librosa_resample(padded, orig_sr=src_hz, target_sr=dst_hz, res_type=settings.res_type)
    length = -(-len(samples) * dst_hz // src_hz)
    return np.asarray(result[:length], dtype=np.float32)
