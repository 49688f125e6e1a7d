"""Makes calls worse, and recordings that are no calls, which `channels: auto` has to distinguish;
noise is white, at -65 dBFS by default."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray
from scipy.signal import fftconvolve

from tests.helpers.conversations import Floats
from uttermill.tasks.base.arrays import RATE

Rng = np.random.Generator
Stereo = NDArray[np.float32]
Sides = tuple[Floats, Floats]
QUIET = 10 ** (-65 / 20)


def delayed(samples: Floats, seconds: float, decibels: float) -> Floats:
    """The signal delayed and attenuated."""
    shift = round(seconds * RATE)
    moved = np.concatenate([np.zeros(shift, np.float32), samples[: len(samples) - shift]])
    return (moved * 10 ** (decibels / 20)).astype(np.float32)


def softer(samples: Floats) -> Floats:
    return delayed(samples, 0.0, -18)


def noisy(channels: Sequence[Floats], rng: Rng, level: float = QUIET) -> Stereo:
    grid = np.stack(channels, 1)
    return (grid + rng.normal(0, level, grid.shape)).astype(np.float32)


def crossed(both: Sides, decibels: float, seconds: float) -> Sides:
    """Each side with cross-talk from the other."""
    return (
        both[0] + delayed(both[1], seconds, decibels),
        both[1] + delayed(both[0], seconds, decibels),
    )


def room(both: Sides, rng: Rng, apart: float) -> Sides:
    """Two microphones in a room with a response of 0.3 s; `apart`: time of sound between them,
    s."""
    mics = [np.zeros(len(both[0]), np.float32) for _ in range(2)]
    for number, voice in enumerate(both):
        for mic in range(2):
            shift = apart if mic != number else 0.0
            softer = -rng.uniform(1, 5) if mic != number else 0.0
            mics[mic] += delayed(voice, 0.003 + shift, softer)
            tail = rng.normal(0, 1, round(0.3 * RATE)) * np.exp(-np.arange(round(0.3 * RATE)) / 900)
            tail *= 0.25 / np.sqrt(np.square(tail).sum())
            mics[mic] += fftconvolve(voice, tail)[: len(voice)].astype(np.float32)
    return mics[0], mics[1]


def panned(both: Sides, decibels: float) -> Sides:
    """A panned stereo image: each voice is attenuated in the other channel, without a delay."""
    return crossed(both, -decibels, 0.0)


def band(rng: Rng, size: int, music: Floats) -> Sides:
    """Stereo music: different parts left and right, each also faintly in the other channel."""
    left, right = np.resize(music, size), np.resize(np.roll(music, len(music) // 3), size)
    beat = (np.arange(size) // (RATE // 2)) % 2
    drums = rng.normal(0, 0.05, size) * np.exp(-(np.arange(size) % (RATE // 2)) / 1500)
    return (
        (left + 0.3 * right + drums * beat).astype(np.float32),
        (right + 0.3 * left + drums * (1 - beat)).astype(np.float32),
    )


def telephone(samples: Stereo) -> Stereo:
    """300 to 3,400 Hz, in 8 bits by the mu-law."""
    spectrum = np.fft.rfft(samples, axis=0)
    hertz = np.fft.rfftfreq(len(samples), 1 / RATE)
    spectrum[(hertz < 300) | (hertz > 3400)] = 0
    narrow = np.clip(np.fft.irfft(spectrum, len(samples), axis=0), -1, 1)
    code = np.round(np.sign(narrow) * np.log1p(255 * np.abs(narrow)) / np.log(256) * 127) / 127
    heard: Stereo = (np.sign(code) * (256 ** np.abs(code) - 1) / 255).astype(np.float32)
    return heard
