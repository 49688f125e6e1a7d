"""libsoxr, very high quality: for targets above 16 bits; slower than `soxr_hq`."""

from .soxr_hq import Quality, Settings

__all__ = ["VERSION", "Settings", "resample", "stream"]

VERSION = 1

_quality = Quality("VHQ")
resample, stream = _quality.resample, _quality.stream
