"""Signal-to-noise ratio of the speech, in dB, without a clean reference.

    S  mean power of the frames that Silero calls speech (probability of 0.5 or more), less N
    N  power of the steady noise, a sum over bands of 250 Hz
    snr = 10 lg (S / N), within -20 to 100 dB

Frames of 32 ms (Hann) every 16 ms, of the channel mean at the native rate, without what is below
about 60 Hz. Noise is measured per band where speech leaves the band: speech never fills all bands
at once, so neither pauses nor the speech detector are needed for that. Smoothed over three frames,
the 5 % quantile of white noise's power is 0.56 of its mean, which gives the first estimate. It is
then replaced eight times by the mean over the frames with at most 1.7 times the estimate (minimum
statistics, Martin 2001, doi 10.1109/89.928915, with a quantile instead of the minimum). Parts of up
to 30 s are measured separately, so noise may change slowly, and memory is bounded.

Not seen: noise that comes and goes (a bark, a second voice), and reverberation. Null for less than
0.2 s of speech, or samples that are not finite.
"""

import math
from collections.abc import Iterator
from itertools import repeat

import numpy as np
import scipy.fft

from ..audio import Clip
from ..base.arrays import Float32s, Float64s
from ..settings import StageSettings, Threshold
from . import _derived as derived
from ._derived import model_bytes as model_bytes

VERSION = 1
COSTLY = True
COLUMNS = {"snr": ("dB", "power of the speech over that of the steady noise, -20 to 100")}
REASONS = {"snr": ("noisy", "high_snr")}

FRAME_SECONDS = 0.032  # the voice detector's window, too
PART_SECONDS = 30.0
SPEECH = 0.5  # least probability of a speech frame
LEAST_SPEECH = 12  # frames: 0.2 s
FIRST_BIN, BAND_BINS = 2, 8  # of 31.25 Hz each; a constant offset affects bins 0 and 1
SMOOTHED = 3  # frames
QUANTILE, OF_MEAN = 0.05, 0.56  # the ratio is measured on white noise
NOISE_BELOW, ROUNDS = 1.7, 8
LOWEST, HIGHEST = -20.0, 100.0  # dB


class Settings(StageSettings):
    min: float | None = Threshold(None, "Smallest ratio kept, dB.")
    max: float | None = Threshold(None, "Largest ratio kept, dB.")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    none: dict[str, float | None] = {"snr": None}
    size = round(clip.rate * FRAME_SECONDS)
    hop = size // 2
    frames = (clip.num_samples - size) // hop + 1
    if frames < LEAST_SPEECH:
        return none
    centres = (np.arange(frames) * hop + size / 2) / clip.rate
    part = math.ceil(frames / math.ceil(clip.seconds / PART_SECONDS))
    probabilities: Float32s | None = None
    count, total, noise, done = 0, 0.0, 0.0, 0
    for bands in _parts(clip, size, part):
        powers = bands.sum(axis=1)
        if not np.isfinite(powers).all():
            return none
        if probabilities is None:  # only now: the detector must not see NaN
            probabilities = derived.speech_probabilities(clip)
        window = (centres[done : done + len(bands)] / FRAME_SECONDS).astype(np.int64)
        done += len(bands)
        speech = probabilities[np.minimum(window, len(probabilities) - 1)] >= SPEECH
        spoken = int(speech.sum())
        if spoken:
            count += spoken
            total += float(powers[speech].sum())
            noise += spoken * _noise(bands[powers > 0])
    if count < LEAST_SPEECH or not total > 0:
        return none
    speech_power = max(total - noise, 0.0)
    return {"snr": derived.bounded_decibels(speech_power, noise, LOWEST, HIGHEST)}


def _parts(clip: Clip, size: int, frames: int) -> Iterator[Float64s]:
    """Band powers [n, bands] of consecutive frames, n at most `frames`."""
    hop = size // 2
    turns = np.arange(size) / size
    shape = (0.5 - 0.5 * np.cos(2 * np.pi * turns)).astype(np.float32)
    bins = size // 2 + 1
    edges = FIRST_BIN + BAND_BINS * np.arange(max((bins - FIRST_BIN) // BAND_BINS, 1))
    with np.errstate(all="ignore"):  # NaN and overflow show in the sums
        for part in derived.frames(derived.mono_blocks(clip), size, hop, repeat(frames)):
            powers = np.square(np.abs(scipy.fft.rfft(part * shape, axis=1)), dtype=np.float64)
            yield np.add.reduceat(powers, edges, axis=1)


def _noise(bands: Float64s) -> float:
    """Power of the steady noise in frames [n, bands] without digital silence."""
    sums = np.cumsum(np.vstack([np.zeros((1, bands.shape[1])), bands]), axis=0)
    frames = np.arange(len(bands))
    first = np.maximum(frames - SMOOTHED // 2, 0)
    last = np.minimum(frames + SMOOTHED // 2 + 1, len(bands))
    smoothed = (sums[last] - sums[first]) / (last - first)[:, None]
    level: Float64s = np.quantile(smoothed, QUANTILE, axis=0) / OF_MEAN
    for _ in range(ROUNDS):
        low = smoothed <= NOISE_BELOW * level
        level = np.where(low, bands, 0).sum(axis=0) / np.maximum(low.sum(axis=0), 1)
    return float(level.sum())
