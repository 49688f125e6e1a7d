"""Sample rate that the sound needs, in Hz: lower than the recording's where it was upsampled.

Audio that was upsampled from 8, 16, 22.05 kHz or another usual rate breaks off at half of it, or
repeats its spectrum above that. Both are sought at half of each usual rate below the recording's
own:

    break   the level that 5 % of the 32 ms frames exceed falls by 12 dB or more, from 0.80 to 0.94
            of the half to all that lies above 1.12 of it; the bandwidth (see `bandwidth`) is then
            from 0.8 to 1.2 of the half and 200 Hz
    mirror  simple resamplers (linear, cubic) leave an image: log spectra below and above the half
            correlate, mirrored, by 0.7 or more, the means of bins and frames taken out

A mirror counts before a break, and of several breaks the one with an image of 0.35 or more, else
the highest. This is a measure of the sound, not of its history: an encoder or microphone that ends
at 8 kHz gives 16 kHz, as upsampled audio does. Null where `bandwidth` is. The formula is this
project's own.
"""

import math
from itertools import repeat

import numpy as np
from scipy import fft

from ..audio import Clip
from ..base.arrays import Float64s
from ..settings import StageSettings, Threshold
from . import _derived as derived
from . import bandwidth
from .bandwidth import BAND, FRAME_SECONDS, band_powers

VERSION = 1
COLUMNS = {"effective_rate": ("Hz", "sample rate that the sound needs, the recording's at most")}
REASONS = {"effective_rate": ("upsampled", "high_effective_rate")}

RATES = (8000, 11_025, 12_000, 16_000, 22_050, 24_000, 32_000, 44_100, 48_000, 96_000)
NEXT = 0.95  # of the recording's rate: nearer ones cannot be told from it
BELOW, ABOVE = (0.80, 0.94), 1.12  # of half the rate; 0.94: resamplers end before it
DROP = 12.0  # dB
REACH = (0.8, 1.2)  # of half the rate, and a band: where its bandwidth may end
TWINS = 0.9  # 22.05 and 24 kHz are told apart by the bandwidth alone
FULL = 0.95  # of half the rate, which the bandwidth of the higher twin reaches
MIRRORED, IMAGE = 0.7, 0.35  # correlations
NEAR, FAR = 0.02, 0.35  # of half the rate: the part of the spectrum that is compared
FRAMES = 600  # 10 s; of longer clips as many, evenly spread
QUIETEST = 1e-3  # of the loudest frame's power
TINY = 1e-14


class Settings(StageSettings):
    min: float | None = Threshold(
        None, "Lowest kept, Hz; 16000 drops what was upsampled from 8 or 12 kHz.", ge=0
    )
    max: float | None = Threshold(None, "Highest kept, Hz.", ge=0)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    edge = bandwidth.measure(clip, bandwidth.Settings())["bandwidth"]
    if edge is None:
        return {"effective_rate": None}
    spectra, spacing = _spectra(clip)
    images = {
        rate: _likeness(spectra, rate / 2 / spacing) for rate in RATES if rate < NEXT * clip.rate
    }
    best = max(images, key=images.__getitem__, default=clip.rate)
    if images.get(best, 0.0) < MIRRORED:
        broken = _broken_off(clip, edge, [*images])
        best = max(broken, key=images.__getitem__, default=clip.rate)
        if broken and images[best] < IMAGE:
            twins = len(broken) > 1 and broken[-2] > TWINS * broken[-1]
            best = broken[-2 if twins and edge < FULL * broken[-1] / 2 else -1]
    return {"effective_rate": float(best)}


def _broken_off(clip: Clip, edge: float, usual: list[int]) -> list[int]:
    """The rates at whose half the spectrum may break off, rising."""
    powers, rounding = band_powers(clip)
    high = np.percentile(10 * np.log10(np.maximum(powers, TINY**2)), 95, axis=0)
    floor = np.maximum(high.max() - bandwidth.RANGE, 10 * np.log10(np.maximum(rounding, TINY**2)))
    levels = np.maximum(high, floor)
    return [
        rate
        for rate in usual
        if REACH[0] * rate / 2 <= edge <= REACH[1] * rate / 2 + BAND
        and _drop(levels, rate / 2) >= DROP
    ]


def _drop(levels: Float64s, half: float) -> float:
    """How far the levels [bands] fall at a frequency, dB."""
    first, last = (int(share * half / BAND) for share in BELOW)
    above = levels[math.ceil(ABOVE * half / BAND) :]
    below = levels[first : max(last, first + 1)]
    return float(below.mean() - above.max()) if len(above) else 0.0


def _likeness(spectra: Float64s, middle: float) -> float:
    """Correlation of log spectra [frames, bins] below and above a bin, the latter mirrored."""
    last = min(FAR * middle, spectra.shape[1] - 2 - middle)
    away = np.arange(int(NEAR * middle) + 2, int(last))
    if not len(away) or not len(spectra):
        return 0.0
    below, above = (
        _fine(spectra[:, np.rint(middle + side * away).astype(int)]) for side in (-1, 1)
    )
    power = math.sqrt(float(np.square(below).sum() * np.square(above).sum()))
    return float((below * above).sum()) / power if power else 0.0


def _fine(levels: Float64s) -> Float64s:
    """Without the means of bins and of frames: loud frames are loud on both sides."""
    levels = levels - levels.mean(axis=0)
    return np.asarray(levels - levels.mean(axis=1, keepdims=True))


def _spectra(clip: Clip) -> tuple[Float64s, float]:
    """(log power [frames, bins] of frames that are not quiet, Hz from bin to bin)."""
    hop = max(round(clip.rate * FRAME_SECONDS / 2), 1)
    window = np.hanning(2 * hop + 1)[:-1].astype(np.float32)
    step = hop * max(math.ceil(clip.num_samples / hop / FRAMES), 1)
    batches = derived.frames(derived.mono_blocks(clip), 2 * hop, step, repeat(FRAMES))
    powers = np.concatenate(
        [np.empty((0, hop + 1))]
        + [np.square(np.abs(fft.rfft(frames * window)), dtype=np.float64) for frames in batches]
    )
    sums = powers.sum(axis=1)
    powers = powers[sums > QUIETEST * sums.max(initial=0.0)]
    return np.log(powers + TINY), clip.rate / (2 * hop)
