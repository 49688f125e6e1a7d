"""Samples as int16, and how much of a clip lies beyond full scale and is cut off in that."""

from __future__ import annotations

import numpy as np

from tasks.audio.blocks import energy
from tasks.base.arrays import Float32s, Int16s
from tasks.base.errors import ItemError

#: Share of a clip's energy that may be cut off. Lossy codecs and resamplers overshoot full scale:
#: 0.3 % of hot clips (measured on Vorbis), 2.1 % of a square wave that keeps its fundamental alone.
#: Of speech at three times full scale most clips lose more.
MOST_CUT_OFF = 0.03


def to_int16(samples: Float32s) -> Int16s:
    """Clamp to full scale, round halves to even. The samples have to be finite."""
    scaled = np.multiply(samples, np.float32(32768))
    np.rint(scaled, out=scaled)
    np.clip(scaled, -32768, 32767, out=scaled)
    return scaled.astype(np.int16)


class Clamp:
    """`to_int16` for the blocks of one clip; `check` says whether it was cut to pieces, as floats
    in the scale of int16 are."""

    def __init__(self) -> None:
        self._energy = self._lost = self._peak = 0.0

    def to_int16(self, samples: Float32s) -> Int16s:
        highest = max(float(samples.max(initial=0)), -float(samples.min(initial=0)))
        self._peak = max(self._peak, highest)
        if highest <= 1:
            self._energy += energy(samples)
        else:  # in float64, in which no square overflows
            wide = samples.astype(np.float64)
            beyond = np.maximum(np.abs(wide) - 1, 0)
            self._energy += float(np.vecdot(wide, wide))
            self._lost += float(np.vecdot(beyond, beyond))
        return to_int16(samples)

    def check(self) -> None:
        """ItemError `over_full_scale` if more than MOST_CUT_OFF of the energy was cut off."""
        if self._lost > MOST_CUT_OFF * self._energy:
            raise ItemError(
                "over_full_scale",
                f"its peak is {self._peak:.3g} times full scale, and cutting that off would take "
                f"{self._lost / self._energy:.0%} of its energy; bring it down with "
                "resample.levels=[{use: peak}]",
            )
