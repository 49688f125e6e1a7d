"""Shelf of resamplers. A plug-in has

    VERSION: int
    class Settings(StageSettings)
    def resample(samples, src_hz: int, dst_hz: int, settings) -> samples     # float32 [n]

and may have `stream(blocks, src_hz, dst_hz, settings)` for long clips. The result has about
n * dst / src samples. Anti-aliased; never called with equal rates. The caller makes the length
exact and clamps.
"""
