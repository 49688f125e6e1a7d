"""Reverberation of the room, without its impulse response: C50 in dB and RT60 in s.

    C50    energy of the first 50 ms of the room's response over that of the rest
    RT60   time in which its sound decays by 60 dB

After Wen, Habets and Naylor 2008 (decay rates, doi 10.1109/ICASSP.2008.4517613): sound in a room
cannot fall faster than the room lets it. The power of sixteen bands from 200 to 7000 Hz is taken
every 8 ms, and a line is fitted to its level over 96 and over 152 ms, wherever it begins at most 25
dB below the band's loud part and ends 5 dB above its quiet one. A tenth of the falling slopes are
steeper than the one that counts: over 96 ms it is linear in C50, over 152 ms its logarithm is
linear in that of RT60. Both lines were fitted on simulated rooms; their errors are in the README of
this folder.

Rooms below 0.2 s are not told apart, nor is a C50 beyond 25 dB, which is a dry recording. Noise,
and music under the speech, look like reverberation. Null for less than a second of speech (Silero),
or samples that are not finite.
"""

import math

import numpy as np
from scipy import fft, signal

from ..audio import Clip
from ..base.arrays import RATE, Float32s, Float64s
from ..settings import StageSettings, Threshold
from . import _derived as derived
from ._derived import model_bytes as model_bytes

VERSION = 1
COLUMNS = {
    "reverberation_c50": ("dB", "estimated energy before 50 ms over that after; 25 or more: dry"),
    "reverberation_rt60": ("s", "estimated time in which sound decays by 60 dB"),
}
REASONS = {
    "reverberation_c50": ("reverberant", "dry"),
    "reverberation_rt60": ("short_decay", "long_decay"),
}

PART_SECONDS = 30.0
FRAME, HOP = 512, 128  # samples: 32 and 8 ms
BANDS, LOWEST, HIGHEST = 16, 200.0, 7000.0  # Hz
C50_FRAMES, RT60_FRAMES = 12, 19  # 96 and 152 ms
LOUD, BELOW = 95, 25.0  # percentile of the levels, and dB under it where a fall may begin
QUIET, OVER, RANGE = 5, 5.0, 55.0  # percentile; dB over it, and dB under LOUD, where it must end
STEEP = 0.10  # of the slopes that fall
#: C50 = a + b slope; ln RT60 = a + b ln(1 - slope); slopes in dB/s.
C50_LINE, RT60_LINE = (-10.1, -0.1057), (7.416, -1.6614)
HIGHEST_C50 = 30.0  # dB
STEEPEST = 2000  # dB/s
LEAST_FALLS = 20
SPEECH, WINDOW_SECONDS = 0.5, 0.032  # least probability of a speech window
LEAST_SPEECH = 1.0  # s
TINY = 1e-12


class Settings(StageSettings):
    min_c50: float | None = Threshold(
        None, "Lowest C50 kept, dB; 10 drops most that sounds like a hall or a far microphone."
    )
    max_c50: float | None = Threshold(None, "Highest C50 kept, dB.")
    min_rt60: float | None = Threshold(None, "Shortest RT60 kept, s.", ge=0)
    max_rt60: float | None = Threshold(None, "Longest RT60 kept, s; living rooms have 0.5.", ge=0)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    none = dict.fromkeys(COLUMNS)
    widths = C50_FRAMES, RT60_FRAMES
    counts = {frames: np.zeros(STEEPEST + 1, np.int64) for frames in widths}
    for samples in derived.parts_16k(clip, PART_SECONDS):
        if not np.isfinite(samples).all():
            return none
        levels = _levels(samples)
        for frames in widths:
            slopes = np.minimum(-_slopes(levels, frames), STEEPEST)
            counts[frames] += np.bincount(slopes[slopes > 0].astype(int), minlength=STEEPEST + 1)
    if min(count.sum() for count in counts.values()) < LEAST_FALLS:
        return none
    spoken = (derived.speech_probabilities(clip) >= SPEECH).sum() * WINDOW_SECONDS
    if spoken < LEAST_SPEECH:
        return none
    falls = [np.cumsum(counts[frames]) for frames in widths]
    early, late = (float(np.searchsorted(of, (1 - STEEP) * of[-1])) + 0.5 for of in falls)
    return {
        "reverberation_c50": min(C50_LINE[0] - C50_LINE[1] * early, HIGHEST_C50),
        "reverberation_rt60": math.exp(RT60_LINE[0] + RT60_LINE[1] * math.log(1 + late)),
    }


def _levels(samples: Float32s) -> Float64s:
    """Levels of the bands around every 8 ms, dB [frames, bands]."""
    frames = np.lib.stride_tricks.sliding_window_view(np.pad(samples, FRAME // 2), FRAME)[::HOP]
    spectra = fft.rfft(frames * np.hanning(FRAME).astype(np.float32))
    edges = np.round(np.geomspace(LOWEST, HIGHEST, BANDS + 1) * FRAME / RATE).astype(int)
    powers = np.square(np.abs(spectra[:, : edges[-1]]), dtype=np.float64)
    return np.asarray(10 * np.log10(np.add.reduceat(powers, edges[:-1], axis=1) + TINY))


def _slopes(levels: Float64s, frames: int) -> Float64s:
    """Slopes of lines over `frames` frames within the range that counts, dB/s [n]."""
    if len(levels) < frames:
        return np.empty(0)
    places = np.arange(frames) - (frames - 1) / 2
    kernel = places / np.square(places).sum() / (HOP / RATE)
    slopes = signal.lfilter(kernel[::-1], 1.0, levels, axis=0)[frames - 1 :]
    loud, quiet = np.percentile(levels, (LOUD, QUIET), axis=0)
    begins = levels[: len(slopes)] > loud - BELOW
    ends = levels[frames - 1 :] > np.maximum(quiet + OVER, loud - RANGE)
    return np.asarray(slopes[begins & ends])
