"""The power of a clip's frames in bands of 200 Hz, up to half its rate."""

from __future__ import annotations

import math
from itertools import repeat

import numpy as np
from scipy import fft

from ..audio import Clip
from ..base.arrays import Float64s
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
