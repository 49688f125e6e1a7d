"""libsoxr, very high quality: for targets above 16 bits; slower than `soxr_hq`."""

from functools import partial

from .soxr_hq import Settings, resampled, streamed

__all__ = ["VERSION", "Settings", "resample", "stream"]

VERSION = 1
resample, stream = partial(resampled, "VHQ"), partial(streamed, "VHQ")
