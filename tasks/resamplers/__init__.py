"""Shelf of resamplers, which must suppress aliases. A plug-in has

    VERSION: int                                    # raise it when the samples change
    class Settings(StageSettings)
    def resample(samples, src_hz: int, dst_hz: int, settings) -> samples     # float32 [n] mono

and may have `stream(blocks, src_hz, dst_hz, settings)` for long clips, blocks in and out. The
result has about n * dst / src samples; the caller makes the length exact and clamps. Never called
with equal rates.
"""
