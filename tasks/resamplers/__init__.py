"""Shelf of resamplers. A plug-in has

    VERSION: int
    class Settings(StageSettings)
    def resample(samples: float32 [n], src_hz: int, dst_hz: int, settings) -> float32 [about n*dst/src]

Anti-aliased; never called with equal rates. The caller makes the length exact and clamps.
"""
