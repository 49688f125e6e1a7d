"""Synthetic sounds without speech, from a seed, and speech mixed with them; 16 kHz, mono,
float32."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tests.helpers.corpus_speech import RATE, Floats

SPEECH_RMS = 0.05  # of full scale: what all sounds are brought to
PEAK = 0.95
FRAME = RATE // 50  # 20 ms


def coloured(rng: np.random.Generator, count: int, slope: float) -> Floats:
    """Noise whose power falls with frequency^slope: 0 white, 1 pink, 2 brown; above 20 Hz."""
    spectrum = np.fft.rfft(rng.standard_normal(count))
    frequency = np.fft.rfftfreq(count, 1 / RATE)
    shape = np.maximum(frequency, 20.0) ** (-slope / 2)
    return levelled(np.fft.irfft(spectrum * np.where(frequency < 20, 0, shape), count))


def melody(rng: np.random.Generator, count: int) -> Floats:
    """Chords of three plucked notes with a lead above them, in C major, two beats a second."""
    scale = np.array([0, 2, 4, 5, 7, 9, 11, 12])
    beat = RATE // 2
    found = np.zeros(count + 2 * beat)
    when = np.arange(2 * beat) / RATE
    for at in range(0, count, beat):
        root = int(rng.integers(0, 8))
        notes = [-12 + int(scale[(root + step) % 8]) for step in (0, 2, 4)]
        for note in [*notes, 12 + int(rng.choice(scale))]:
            pitch = 261.6 * 2 ** (note / 12)
            partials = sum(np.sin(2 * np.pi * pitch * n * when) / n**1.5 for n in range(1, 7))
            found[at : at + 2 * beat] += partials * np.exp(-when / 0.4)
    return levelled(found[:count])


def babble(rng: np.random.Generator, count: int, voices: Sequence[Floats], talkers: int) -> Floats:
    """So many talkers at one level, each from a random place of one voice."""
    chosen = rng.choice(len(voices), talkers, replace=False)
    parts = [np.roll(voices[i], int(rng.integers(0, len(voices[i])))) for i in chosen]
    return levelled(np.sum([fitted(levelled(part), count) for part in parts], axis=0))


def fitted(samples: Floats, count: int) -> Floats:
    """Repeated or cut to `count` samples."""
    repeated: Floats = np.tile(samples, -(-count // len(samples)))
    return repeated[:count]


def levelled(samples: NDArray[np.floating], rms: float = SPEECH_RMS) -> Floats:
    """Brought to a root mean square, without clipping."""
    now = float(np.sqrt(np.mean(np.square(samples, dtype=np.float64))))
    scaled = samples * (rms / now) if now else samples
    return (scaled * min(1.0, PEAK / max(float(np.abs(scaled).max()), 1e-9))).astype(np.float32)


def active_power(samples: Floats) -> float:
    """Mean power of the 20 ms frames that are within 30 dB of the loudest: without pauses."""
    frames = samples[: len(samples) // FRAME * FRAME].reshape(-1, FRAME)
    powers = np.square(frames, dtype=np.float64).mean(axis=1)
    return float(powers[powers >= powers.max() / 1000].mean())


def mixed(speech: Floats, noise: Floats, snr: float) -> Floats:
    """Speech over noise, `snr` in dB of the speech's active power over the noise's."""
    other = fitted(noise, len(speech))
    gain = np.sqrt(active_power(speech) / active_power(other) / 10 ** (snr / 10))
    both = speech + gain * other
    safe: Floats = (both * min(1.0, PEAK / float(np.abs(both).max()))).astype(np.float32)
    return safe
