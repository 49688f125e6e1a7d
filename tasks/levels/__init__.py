"""Shelf of levels: what is done to an utterance after resampling, before it becomes int16. One has

    VERSION: int                                    # raise it when the samples change
    class Settings(StageSettings)
    def apply(samples, rate: int, settings) -> samples     # float32 [n] mono, full scale is 1

A pure function: its input is left alone, the result has as many samples, and equal input gives
equal output whatever was done before. It sees the whole utterance, which the caller holds in memory
(one float32 a sample: 38 MB for 600 s at 16 kHz), because most of them need the loudest sample or
the mean before they can change the first one. It is never called with no samples, nor with ones
that are not finite. Beyond full scale is allowed: the caller clamps. ItemError where it must refuse
an utterance.
"""
