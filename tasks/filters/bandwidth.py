"""Highest frequency with speech, in Hz: reveals audio that was upsampled.

Upsampled 8 kHz audio has only dither, rounding or codec noise above 4 kHz, whatever its rate. The
channel mean is cut into frames of 32 ms (Hann, half overlapping) and its power summed in bands of
200 Hz. Speech comes and goes, noise floors stay: a band holds speech if the level that 5 % of the
frames exceed is at least 12 dB above the level that 90 % exceed. Both are limited from below to
75 dB under the strongest band (below, resamplers leak) and to 10 dB above the noise of rounding to
the clip's smallest step (which comes and goes, too). The bandwidth is the upper edge of the highest
such band; in noise, that is where speech rises above it. A clip that is steady throughout (noise, a
tone) ends where its spectrum breaks off: at the highest band 15 dB or more above all bands from
400 Hz above it, or at half the rate.

Null for silence, and below 1 s, which may hold one vowel. Simple resamplers leave images of what
was just below the old limit: up to 4.8 kHz by FFmpeg or SciPy, 5.6 by torchaudio. Linear
interpolation is not detected; `effective_rate` sees both. The formula is this project's own.
"""

import math
from itertools import repeat

import numpy as np
from scipy import fft

from ..audio import Clip
from ..base.arrays import Float64s
from ..settings import StageSettings, Threshold
from . import _derived as derived

FRAME_SECONDS = 0.032
BAND = 200.0  # Hz; in one band, noise varies less than speech does
MAX_FRAMES = 4096  # 65 s; of longer clips as many, evenly spread
CHUNK = 64  # frames per FFT call


def band_powers(clip: Clip) -> tuple[Float64s, Float64s]:
    """(power [frames, bands] of frames that are not constant, power of rounding noise [bands]).

    Rounding noise is white; its power is the square of the clip's smallest step, divided by 12.
    """
    return derived.cached(clip, "band_powers", lambda: _band_powers(clip))


def _band_powers(clip: Clip) -> tuple[Float64s, Float64s]:
    hop = max(round(clip.rate * FRAME_SECONDS / 2), 1)
    size = fft.next_fast_len(2 * hop, real=True)
    window = np.hanning(2 * hop + 1)[:-1].astype(np.float32)
    bands = max(int(clip.rate / 2 / BAND), 1)
    # Each band's first bin; a bin on an edge belongs to the band below it.
    first = np.floor(np.arange(bands) * BAND * size / clip.rate).astype(int) + 1
    step = hop * max(math.ceil(clip.num_samples / hop / MAX_FRAMES), 1)
    counts = repeat(max(CHUNK * hop // step, 1))  # of frames, so that a chunk has one length
    powers, smallest = [np.empty((0, bands))], math.inf
    with np.errstate(over="ignore", invalid="ignore"):
        for frames in derived.frames(derived.mono_blocks(clip), 2 * hop, step, counts):
            frames = frames[frames.max(axis=1) != frames.min(axis=1)]
            steps = np.abs(np.diff(frames[:, :hop]))
            smallest = min(smallest, float(steps.min(initial=np.inf, where=steps > 0)))
            spectra = fft.rfft(frames * window, size)
            powers.append(np.add.reduceat(np.abs(spectra).astype(np.float64) ** 2, first, 1))
    noise = smallest**2 / 12 if powers[1:] else 0.0
    bins = np.diff(np.append(first, size // 2 + 1))
    return np.concatenate(powers), noise * float(window @ window) * bins


VERSION = 1
COLUMNS = {"bandwidth": ("Hz", "highest frequency with speech")}
REASONS = {"bandwidth": ("narrow_band", "wide_band")}

SHORTEST = 1.0  # s; one in eight half seconds of speech has nothing above 4 kHz
LIFT = 12.0  # dB; steady noise has 6
RANGE = 75.0  # dB; with 60, clips that reach 16 kHz seem to end at 7
ROUNDING = 10.0  # dB; it varies between frames, and channel means have finer steps
BREAK = 15.0  # dB
APART = 2  # bands
TINY = 1e-30  # least power, so that zero has a logarithm


class Settings(StageSettings):
    min: float | None = Threshold(
        None, "Lowest bandwidth kept, Hz; 6000 drops audio that was once 8 kHz.", ge=0
    )
    max: float | None = Threshold(None, "Highest bandwidth kept, Hz.", ge=0)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if clip.seconds < SHORTEST:
        return {"bandwidth": None}
    powers, rounding = band_powers(clip)
    if not len(powers) or not np.isfinite(powers).all():
        return {"bandwidth": None}
    low, high = np.percentile(10 * np.log10(np.maximum(powers, TINY)), (10, 95), axis=0)
    steps = 10 * np.log10(np.maximum(rounding, TINY)) + ROUNDING
    floor = np.maximum(high.max() - RANGE, np.minimum(steps, high.max() - LIFT))
    low, high = np.maximum(low, floor), np.maximum(high, floor)
    speech = np.flatnonzero(high - low >= LIFT)
    top = speech[-1] if len(speech) else _break(high)
    # The last band reaches up to half the rate.
    return {"bandwidth": clip.rate / 2 if top == len(high) - 1 else float(top + 1) * BAND}


def _break(levels: Float64s) -> int:
    """The band where the spectrum breaks off; the last one if it does not."""
    above = np.maximum.accumulate(levels[::-1])[::-1]  # the highest level from a band upwards
    ends = np.flatnonzero(levels[:-APART] - above[APART:] >= BREAK)
    return int(ends[-1]) if len(ends) else len(levels) - 1
