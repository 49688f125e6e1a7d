"""Integrated loudness by ITU-R BS.1770-4, in LUFS.

Each channel passes the K-weighting of Annex 1: a shelf of +4 dB above 1.7 kHz and a high-pass at
38 Hz. The standard gives coefficients for 48 kHz only; here they are derived from the analogue
filters by the bilinear transform, for any rate from 8 kHz (null below). Single frequencies weigh up
to 0.5 dB more at 8 kHz, 0.16 at 16 kHz, 0.1 at 22 kHz. A block of 400 ms, one every 100 ms, has
-0.691 + 10 log10(sum of G z) LUFS, where z is a channel's mean square and G is 1.41 for surround
channels, 0 for the LFE, 1 otherwise. Blocks below -70 LUFS are left out, then those 10 LU below the
mean of the rest; the mean of the remaining blocks is the loudness.

A clip shorter than a block is one block of its own length. If every block is below -70 LUFS, the
result is -70, so that limits apply to silence, too.
"""

import math

import numpy as np
from scipy import signal

from ..audio import Clip
from ..base.arrays import Float64s
from ..settings import StageSettings, Threshold
from ._derived import chunks

VERSION = 1
COLUMNS = {"loudness": ("LUFS", "integrated loudness by ITU-R BS.1770-4, -70 at least")}
REASONS = {"loudness": ("too_quiet", "too_loud")}
LOWEST_RATE = 8000  # Hz; below, the shelf is too near the Nyquist frequency
OFFSET = -0.691  # makes a 997 Hz sine at full scale in one channel -3.01 LUFS
GATE = -70.0  # LUFS
RELATIVE_GATE = -10.0  # LU
STEPS = 4  # steps of 100 ms in a block

#: Channel weights by number of channels where no layout is stated, in WAV order: L R C Ls Rs and
#: L R C LFE Ls Rs. Other numbers are microphones rather than loudspeakers, and weigh the same.
WEIGHTS = {5: (1.0, 1.0, 1.0, 1.41, 1.41), 6: (1.0, 1.0, 1.0, 0.0, 1.41, 1.41)}
SURROUND = 1.41  # weight of a channel that has half the centre's in the mix


class Settings(StageSettings):
    min: float | None = Threshold(None, "Lowest loudness kept, LUFS.")
    max: float | None = Threshold(None, "Highest loudness kept, LUFS.")


def k_weighting(rate: int) -> Float64s:
    """Both filters as second-order sections [2, 6]; at 48 kHz, the standard's coefficients."""
    k, q = math.tan(math.pi * 1681.974450955533 / rate), 0.7071752369554196
    high = 10 ** (3.999843853973347 / 20)
    band = high**0.4996667741545416
    a0 = 1 + k / q + k * k
    zeros = high + band * k / q + k * k, 2 * (k * k - high), high - band * k / q + k * k
    shelf = np.array([*zeros, a0, 2 * (k * k - 1), 1 - k / q + k * k]) / a0
    k, q = math.tan(math.pi * 38.13547087602444 / rate), 0.5003270373238773
    a0 = 1 + k / q + k * k
    high_pass = [1.0, -2.0, 1.0, 1.0, 2 * (k * k - 1) / a0, (1 - k / q + k * k) / a0]
    return np.array([shelf, high_pass])


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if clip.rate < LOWEST_RATE or not clip.num_samples:
        return {"loudness": None}
    step = (clip.rate + 5) // 10
    powers = _powers(clip, step)
    whole = powers[: clip.num_samples // step]  # an incomplete step is in no block
    if len(whole) < STEPS:
        blocks = powers.sum(keepdims=True) / clip.num_samples
    else:
        blocks = np.convolve(whole, np.ones(STEPS), "valid") / (STEPS * step)
    if not np.isfinite(blocks).all():
        return {"loudness": None}
    loud = blocks[blocks > 10 ** ((GATE - OFFSET) / 10)]
    if not len(loud):
        return {"loudness": GATE}
    loud = loud[loud > loud.mean() * 10 ** (RELATIVE_GATE / 10)]
    return {"loudness": OFFSET + 10 * math.log10(loud.mean())}


def _powers(clip: Clip, step: int) -> Float64s:
    """Weighted sum of squares over the channels, for each step of 100 ms."""
    weights = np.array(WEIGHTS.get(clip.channels, (1.0,) * clip.channels))
    if clip.weights is not None:
        surround = np.array(clip.weights)[[*clip.in_mix]] == max(clip.weights) / 2
        weights = np.where(surround, SURROUND, 1.0)
    sections = k_weighting(clip.rate)
    state = np.zeros((len(sections), len(weights), 2))
    powers = []
    with np.errstate(over="ignore", invalid="ignore"):
        for chunk in chunks(clip, step):
            heard, state = signal.sosfilt(sections, chunk.T, axis=1, zi=state)
            state[abs(state) < 1e-30] = 0.0  # else silence leads to denormals, which are slow
            squares = weights @ (heard * heard)
            powers.append(np.add.reduceat(squares, np.arange(0, len(squares), step)))
    return np.concatenate(powers)
