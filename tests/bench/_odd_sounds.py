"""Changes of speech for `_odd_recordings.py`: tempo, whisper, telephone, room, faults."""

from __future__ import annotations

from fractions import Fraction

import av
import numpy as np
import soxr
from scipy import signal

from tests.bench.corpus_speech import RATE, Floats

TELEPHONE = 8_000  # Hz
BAND = (300, 3400)  # Hz
MU = 255
ORDER, FRAME = 18, 400  # of linear prediction; samples of a frame, half of which overlaps the next


def stretched(samples: Floats, factor: float) -> Floats:
    """At `factor` times the tempo, with the same pitch."""
    graph = av.filter.Graph()
    first = graph.add_abuffer(
        sample_rate=RATE, format="flt", layout="mono", time_base=Fraction(1, RATE)
    )
    last = graph.add("abuffersink")
    graph.link_nodes(first, graph.add("atempo", str(factor)), last).configure()
    frame = av.AudioFrame.from_ndarray(samples[None], format="flt", layout="mono")
    frame.sample_rate = RATE
    graph.push(frame)
    graph.push(None)
    blocks = []
    while True:
        try:
            blocks.append(graph.pull().to_ndarray()[0])
        except (av.error.BlockingIOError, av.error.EOFError):
            return np.concatenate(blocks).astype(np.float32)


def whispered(samples: Floats, rng: np.random.Generator) -> Floats:
    """Noise in place of the voice, shaped by the linear prediction of each frame."""
    import librosa

    window, step = np.hanning(FRAME), FRAME // 2
    padded = np.pad(samples.astype(np.float64), (step, FRAME))
    out = np.zeros(len(padded))
    for at in range(0, len(samples), step):
        frame = padded[at : at + FRAME] * window
        power = np.sqrt(np.mean(frame**2))
        if power < 1e-5:
            continue
        shape = librosa.lpc(frame + 1e-6 * rng.standard_normal(FRAME), order=ORDER)
        noise = signal.lfilter([1.0], shape, rng.standard_normal(FRAME)) * window
        out[at : at + FRAME] += noise * power / (np.sqrt(np.mean(noise**2)) or 1.0)
    high = signal.lfilter([1.0, -0.9], [1.0], out)[step : step + len(samples)]
    found: Floats = high.astype(np.float32)
    return found


def telephoned(samples: Floats, rng: np.random.Generator) -> Floats:
    """At 8 kHz in mu-law between 300 and 3400 Hz, with two clicks and half a dropout of 60 ms a
    second."""
    narrow = soxr.resample(samples, RATE, TELEPHONE, "HQ")
    band = signal.butter(4, BAND, "bandpass", fs=TELEPHONE, output="sos")
    narrow = signal.sosfilt(band, narrow).clip(-1, 1)
    coded = np.round(np.sign(narrow) * np.log1p(MU * np.abs(narrow)) / np.log1p(MU) * 127) / 127
    out = np.sign(coded) * np.expm1(np.abs(coded) * np.log1p(MU)) / MU
    seconds = len(out) / TELEPHONE
    for at in rng.integers(0, len(out) - TELEPHONE, int(seconds / 2)):
        out[at : at + TELEPHONE * 60 // 1000] = 0.0
    for at in rng.integers(0, len(out) - TELEPHONE, int(seconds * 2)):
        out[at : at + 3] += rng.choice((-0.5, 0.5))
    found: Floats = out.clip(-1, 1).astype(np.float32)
    return found


def in_a_room(samples: Floats, rng: np.random.Generator, decay: float = 0.8) -> Floats:
    """With noise that falls by 60 dB in `decay` s as the room's response, as loud as the voice."""
    times = np.arange(round(decay * RATE)) / RATE
    tail = rng.standard_normal(len(times)) * 10 ** (-3 * times / decay)
    tail[: RATE // 200] = 0.0
    response = tail / np.sqrt(np.sum(tail**2))
    response[0] = 1.0
    out = signal.fftconvolve(samples, response)[: len(samples)]
    found: Floats = (0.7 * out).clip(-1, 1).astype(np.float32)
    return found


def clipped(samples: Floats) -> Floats:
    """Inverted, with a DC offset of a quarter of full scale, and 14 dB too loud."""
    return (0.25 - 5 * samples).clip(-1, 1).astype(np.float32)
