"""The level rule of Applio: three quarters of the way to a peak of 0.9.

y = x / max|x| * 0.9 * 0.75 + x * 0.25, so that a quiet utterance becomes loud, but stays a little
quieter than a loud one. As in Applio, a peak above 2.5 is refused (ItemError `over_full_scale`);
only float sources can have one. Silence stays silence.
"""

import numpy as np

from ..base.arrays import Float32s
from ..base.errors import ItemError
from ..settings import StageSettings

VERSION = 1
HIGHEST = 2.5  # full scale is 1
PEAK, SHARE = 0.9, 0.75
Settings = StageSettings  # none: the rule is fixed


def apply(samples: Float32s, rate: int, settings: Settings) -> Float32s:
    peak = float(np.abs(samples).max())
    if peak > HIGHEST:
        raise ItemError("over_full_scale", f"its peak is {peak:.3g}, more than {HIGHEST}")
    if peak == 0:
        return samples.copy()
    wide = samples.astype(np.float64)
    return (wide / peak * (PEAK * SHARE) + wide * (1 - SHARE)).astype(np.float32)
