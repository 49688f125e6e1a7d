"""Data-Juicer's `audio_nmf_snr`: ratio of the powers of two NMF components, in dB.

    V = |STFT(channel mean, native rate)|      2048-sample Hann window, hop 512, centred
    V ≈ w₀h₀ + w₁h₁                            NMF of two components, seed 0, at most 500 rounds
    nmf_snr = 10 lg (mean s² / mean n²)        s, n: inverse STFT of w₀h₀ and w₁h₁, phase zero

For comparison with corpora that were filtered by it; equal to Data-Juicer's to 0.01 dB. It is not a
signal-to-noise ratio: nothing says which component is speech, another seed can change the sign, and
noise at 0 dB hardly changes the value. Filter by `snr` instead.

Null if there is no ratio: one component is silent (for silence Data-Juicer gives 1.8e308, which
would spoil every mean over the column), fewer than 512 samples, samples that are not finite. Also
null above 600 s, where the spectrogram would not fit in memory.
"""

import math
from collections.abc import Callable, Iterable
from functools import lru_cache
from itertools import chain, repeat

import numpy as np
import scipy.fft

from ..audio import MATERIALISE_SECONDS, Clip
from ..base.arrays import Float32s
from ..settings import StageSettings, Threshold
from . import _derived as derived
from ._derived import mono_blocks

VERSION = 1
COSTLY = True
COLUMNS = {"nmf_snr": ("dB", "power of NMF component 0 over that of 1, as Data-Juicer has it")}


class Settings(StageSettings):
    """Limits on the ratio; Data-Juicer keeps what is at least 0 dB."""

    min: float | None = Threshold(None, "Smallest ratio kept, dB.")
    max: float | None = Threshold(None, "Largest ratio kept, dB.")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    none: dict[str, float | None] = {"nmf_snr": None}
    if clip.num_samples < HOP or clip.seconds > MATERIALISE_SECONDS:
        return none
    with np.errstate(all="ignore"):  # overflow shows in the result
        spectrogram = magnitudes(mono_blocks(clip), clip.num_samples)
        if not math.isfinite(float(spectrogram.sum(dtype=np.float64))):
            return none
        activations, spectra = factors(spectrogram)
        signal = power(activations[0], spectra[0])
        noise = power(activations[1], spectra[1])
    if not (0 < signal < math.inf and 0 < noise < math.inf):
        return none
    return {"nmf_snr": 10 * math.log10(signal / noise)}


# The same numbers as librosa's `decompose` (scikit-learn's NMF: coordinate descent, squared error,
# random start from seed 0, no shuffle) and librosa's `istft`, with less work:
#
# - A coordinate's update needs only its own row. So one compiled pass takes a frame, updates its
#   two activations and adds them to what the spectra's update needs, while the frame is cached: a
#   third of the time of matrix products.
# - With phase zero, a component's signal is one waveform of 2048 samples, added every 512 with the
#   activations as weights. So its power is a quadratic form of four weights at a time.

FFT, HOP = 2048, 512  # samples: librosa's defaults
BINS = FFT // 2 + 1
PARTS = FFT // HOP  # frames that contain each sample
ITERATIONS, TOLERANCE = 500, 1e-4
FLUSH = 256  # frames summed in float32 before they join the total, which keeps its rounding small
FRAMES = 64  # per FFT call: half a megabyte


@lru_cache(maxsize=1)
def _window() -> Float32s:
    turns = np.arange(FFT) / FFT
    return (0.5 - 0.5 * np.cos(2 * np.pi * turns)).astype(np.float32)


def magnitudes(blocks: Iterable[Float32s], count: int) -> Float32s:
    """|STFT| of `count` samples in blocks, float32 [frames, 1025], centred, padded with zeros."""
    spectrum = np.empty((1 + count // HOP, BINS), np.float32)
    padding = [np.zeros(FFT // 2, np.float32)]
    done = 0
    for frames in derived.frames(chain(padding, blocks, padding), FFT, HOP, repeat(FRAMES)):
        spectrum[done : done + len(frames)] = np.abs(scipy.fft.rfft(frames * _window(), axis=1))
        done += len(frames)
    return spectrum


def factors(spectrogram: Float32s) -> tuple[Float32s, Float32s]:
    """Activations [2, frames] and spectra [2, 1025] whose product approximates [frames, 1025]."""
    descend = _compiled()
    frames, bins = spectrogram.shape
    level = np.sqrt(spectrogram.mean() / 2)
    draw = np.random.RandomState(0).standard_normal
    spectra = np.abs(level * draw(size=(2, bins)).astype(np.float32))
    activations = np.abs(level * draw(size=(frames, 2)).astype(np.float32))
    sums, first = np.empty((4, bins), np.float32), 0.0
    for turn in range(ITERATIONS):
        violation = descend(spectrogram, activations, spectra, sums)
        if turn == 0:
            first = violation
        if first == 0 or violation / first <= TOLERANCE:
            break
    return np.ascontiguousarray(activations.T), spectra


@lru_cache(maxsize=1)
def _compiled() -> Callable[[Float32s, Float32s, Float32s, Float32s], float]:
    """`_descend` compiled by Numba: half a second, once per process."""
    from numba import njit

    fast = {"reassoc", "contract", "nsz"}  # sums in any order; NaN stays NaN
    return njit(nogil=True, fastmath=fast, error_model="numpy")(_descend)


def _descend(
    spectrogram: Float32s, activations: Float32s, spectra: Float32s, sums: Float32s
) -> float:
    """One coordinate step of each activation [frames, 2], then of each value of the spectra
    [2, 1025], in place; returns the violation of the optimality conditions. `sums` [4, 1025] is
    scratch.

    Plain loops over single values for two components: Numba makes vector instructions of them, and
    compiles array expressions for longer than they would save. A value of zero that cannot decrease
    violates nothing.
    """
    zero = np.float32(0)
    frames, bins = spectrogram.shape
    first, mixed, second = zero, zero, zero  # the spectra's products
    for k in range(bins):
        one, two = spectra[0, k], spectra[1, k]
        first += one * one
        mixed += one * two
        second += two * two
        for i in range(4):
            sums[i, k] = zero
    # Sums over frames: of the activations' products; in `sums`, of the frames that they weight.
    aa, ab, bb, violation = 0.0, 0.0, 0.0, 0.0
    for t in range(frames):
        to_one, to_two = zero, zero
        for k in range(bins):
            to_one += spectrogram[t, k] * spectra[0, k]
            to_two += spectrogram[t, k] * spectra[1, k]
        a, b = activations[t, 0], activations[t, 1]
        gradient = first * a + mixed * b - to_one
        violation += float(abs(gradient)) if a != 0 or gradient < 0 else 0.0
        a = max(a - gradient / first, zero) if first != 0 else a
        gradient = mixed * a + second * b - to_two
        violation += float(abs(gradient)) if b != 0 or gradient < 0 else 0.0
        b = max(b - gradient / second, zero) if second != 0 else b
        activations[t, 0], activations[t, 1] = a, b
        aa, ab, bb = aa + a * a, ab + a * b, bb + b * b
        for k in range(bins):
            sums[0, k] += a * spectrogram[t, k]
            sums[1, k] += b * spectrogram[t, k]
        if t % FLUSH == FLUSH - 1 or t == frames - 1:
            for k in range(bins):
                sums[2, k] += sums[0, k]
                sums[3, k] += sums[1, k]
                sums[0, k] = sums[1, k] = zero
    first, mixed, second = np.float32(aa), np.float32(ab), np.float32(bb)
    for k in range(bins):
        one, two = spectra[0, k], spectra[1, k]
        gradient = first * one + mixed * two - sums[2, k]
        violation += float(abs(gradient)) if one != 0 or gradient < 0 else 0.0
        one = max(one - gradient / first, zero) if first != 0 else one
        gradient = mixed * one + second * two - sums[3, k]
        violation += float(abs(gradient)) if two != 0 or gradient < 0 else 0.0
        two = max(two - gradient / second, zero) if second != 0 else two
        spectra[0, k], spectra[1, k] = one, two
    return violation


def power(activations: Float32s, spectrum: Float32s) -> float:
    """Mean square of one component's signal with phase zero.

    With window w, the inverse STFT is sum_t a_t g(n - 512 t) / sum_t w²(n - 512 t), where g is w
    times the inverse FFT of the spectrum. In blocks of 512 samples, block k overlaps frames k-3 to
    k. Centring keeps blocks 2 to T, of which the first and the last lack one frame.
    """
    frames = len(activations)
    window = _window().astype(np.float64).reshape(PARTS, HOP)
    wave = scipy.fft.irfft(spectrum.astype(np.float64), FFT).reshape(PARTS, HOP) * window
    weights = activations.astype(np.float64)
    total = 0.0
    for block in sorted({2, frames}):
        parts = [j for j in range(PARTS) if 0 <= block - j < frames]
        sound = weights[[block - j for j in parts]] @ wave[parts]
        total += float(np.square(sound / np.square(window[parts]).sum(axis=0)).sum())
    if frames >= PARTS:
        inner = wave / np.square(window).sum(axis=0)
        gram = inner @ inner.T
        # Line k: the weights of frames k-3 to k, reversed, as `wave` has the newest frame first.
        four = np.lib.stride_tricks.sliding_window_view(weights, PARTS)[:, ::-1]
        total += float(np.einsum("kj,kj->", four @ gram, four))
    return total / (HOP * (frames - 1))
