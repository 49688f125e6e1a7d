"""Syllables per second of speech, counted in the audio, without text or language.

After de Jong and Wempe 2009 (doi 10.3758/BRM.41.2.385): a syllable is a peak of the envelope that
has a voice. The envelope is that of Wang and Narayanan 2007 (doi 10.1109/TASL.2007.905178): the
products of each two of twelve bands from 200 to 3500 Hz, summed, so that a frame counts in which
many bands are loud at once, as in a vowel. It is taken every 10 ms, smoothed, and in dB.

A peak counts if it stands 1.5 dB above both its sides, is at most 25 dB below the 95th percentile
of its part of the clip (30 s at most), is voiced (autocorrelation of 0.4 or more within 60 to
400 Hz), and if Silero hears speech there. The rate is their number over the seconds in which it
does: pauses do not count.

Null for less than half a second of speech, or samples that are not finite. Its error is in the
README of this folder.
"""

import numpy as np
from scipy import fft, signal

from ..audio import Clip
from ..base.arrays import RATE, Bools, Float32s, Float64s, Int64s
from ..settings import StageSettings, Threshold
from . import _derived as derived
from ._derived import model_bytes as model_bytes

VERSION = 1
COLUMNS = {"speech_rate": ("1/s", "syllables a second of speech, pauses left out")}
REASONS = {"speech_rate": ("slow_speech", "fast_speech")}

PART_SECONDS = 30.0
FRAME, HOP = 400, 160  # samples: 25 and 10 ms
SIZE = 512  # of a frame's FFT
BANDS, LOWEST, HIGHEST = 12, 200.0, 3500.0  # Hz
SMOOTHED = 4  # frames
RISE = 1.5  # dB; vowels that follow each other dip little
RANGE = 25.0  # dB
LOUD = 95  # percentile of the envelope
VOICE_FRAME = 640  # samples: 40 ms, more than two periods at 60 Hz
PERIODS = slice(40, 267)  # samples: 400 to 60 Hz
VOICED = 0.4  # of the autocorrelation
SPEECH = 0.5  # least probability of a speech window
WINDOW = 512  # samples of such a window
LEAST_SPEECH = 16  # windows: 0.5 s
TINY = 1e-12


class Settings(StageSettings):
    min: float | None = Threshold(
        None, "Slowest kept, syllables a second; people read aloud at 4 to 6.", ge=0
    )
    max: float | None = Threshold(
        None, "Fastest kept, syllables a second; more than 8 is seldom a person's rate.", ge=0
    )


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    count, start = 0, 0
    speech: Bools | None = None
    for samples in derived.parts_16k(clip, PART_SECONDS):
        if not np.isfinite(samples).all():
            return {"speech_rate": None}
        if speech is None:  # only now: the detector must not see NaN
            speech = derived.speech_probabilities(clip) >= SPEECH
            near = np.convolve(speech, np.ones(3), "same") > 0  # an edge may be a window off
        nuclei = _nuclei(samples)
        windows = np.minimum((start + nuclei) // WINDOW, len(speech) - 1)
        count += int(near[windows].sum())
        start += len(samples)
    if speech is None or (spoken := int(speech.sum())) < LEAST_SPEECH:
        return {"speech_rate": None}
    return {"speech_rate": count / (spoken * WINDOW / RATE)}


def _nuclei(samples: Float32s) -> Int64s:
    """The sample at which each syllable is loudest."""
    levels = _envelope(samples)
    if not len(levels):
        return np.empty(0, np.int64)
    least = float(np.percentile(levels, LOUD)) - RANGE
    # Silence around the clip, which may begin or end within a syllable.
    around = np.pad(np.maximum(levels, least - 10), 1, constant_values=least - 10)
    peaks, _ = signal.find_peaks(around, height=least, prominence=RISE)
    places = (peaks - 1) * HOP
    voiced: Int64s = places[_voiced(samples, places)]
    return voiced


def _envelope(samples: Float32s) -> Float64s:
    """How loud vowels are in the frame around every 10 ms, dB [frames]."""
    padded = np.pad(samples, FRAME // 2)
    if len(padded) < FRAME + HOP:
        return np.empty(0)
    frames = np.lib.stride_tricks.sliding_window_view(padded, FRAME)[::HOP]
    spectra = fft.rfft(frames * np.hanning(FRAME).astype(np.float32), SIZE)
    first, last = (round(hertz * SIZE / RATE) for hertz in (LOWEST, HIGHEST))
    edges = np.linspace(first, last + 1, BANDS + 1).astype(int)
    powers = np.square(np.abs(spectra[:, : edges[-1]]), dtype=np.float64)
    power = np.add.reduceat(powers, edges[:-1], axis=1)
    pairs = (np.sqrt(power).sum(axis=1) ** 2 - power.sum(axis=1)) / 2
    weights = np.hanning(SMOOTHED + 2)[1:-1]
    smooth = np.convolve(pairs, weights / weights.sum(), "same")
    return np.asarray(10 * np.log10(smooth + TINY))


def _voiced(samples: Float32s, places: Int64s) -> Bools:
    """Whether the 40 ms around each place repeat themselves, as a voice does."""
    padded = np.pad(samples, VOICE_FRAME // 2)
    frames = np.lib.stride_tricks.sliding_window_view(padded, VOICE_FRAME)[places]
    frames = frames - frames.mean(axis=1, keepdims=True)
    spectra = fft.rfft(frames.astype(np.float64), 2 * VOICE_FRAME)
    likeness = fft.irfft(np.square(np.abs(spectra)), 2 * VOICE_FRAME)[:, :VOICE_FRAME]
    overlap = 1 - np.arange(VOICE_FRAME) / VOICE_FRAME
    scaled = likeness / overlap / np.maximum(likeness[:, :1], TINY)
    return np.asarray(scaled[:, PERIODS].max(axis=1) >= VOICED)
