"""Shelf of levels, which process an utterance after resampling, before int16. A plug-in has

    VERSION: int                                    # raise it when the samples change
    class Settings(StageSettings)
    def apply(samples, rate: int, settings) -> samples     # float32 [n] mono, full scale is 1

`apply` is a pure function: it leaves its input alone and returns as many samples; equal input gives
equal output. It gets the whole utterance in memory (38 MB for 600 s at 16 kHz), because most levels
need the loudest sample or the mean first. It is never called with no samples, or with samples that
are not finite. The result may exceed full scale: the caller clamps. It raises ItemError to refuse
an utterance.
"""
