"""Samples in which nobody speaks, mono at 16 kHz."""

import numpy as np

from uttermill.tasks.base.arrays import RATE

NO_SPEECH = {
    "silence": np.zeros(2 * RATE),
    "nothing": np.zeros(0),
    "NaN": np.full(2 * RATE, np.nan),
    "noise": 0.1 * np.random.default_rng(1).standard_normal(4 * RATE),
}
