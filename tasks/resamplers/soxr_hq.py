"""libsoxr, high quality: the default. Stop band below -100 dB, linear phase, fast."""

from ._soxr import Quality, Settings

__all__ = ["VERSION", "Settings", "resample", "stream"]

VERSION = 1

_quality = Quality("HQ")
resample, stream = _quality.resample, _quality.stream
