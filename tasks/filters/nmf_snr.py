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

from __future__ import annotations

import math

import numpy as np

from tasks.audio import MATERIALISE_SECONDS, Clip
from tasks.filters import _nmf
from tasks.filters._derived import mono_blocks
from tasks.settings import StageSettings, Threshold

VERSION = 1
COSTLY = True
COLUMNS = {"nmf_snr": ("dB", "power of NMF component 0 over that of 1, as Data-Juicer has it")}


class Settings(StageSettings):
    """Limits on the ratio; Data-Juicer keeps what is at least 0 dB."""

    min: float | None = Threshold(None, "Smallest ratio kept, dB.")
    max: float | None = Threshold(None, "Largest ratio kept, dB.")


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"nmf_snr": _ratio(clip)}


def _ratio(clip: Clip) -> float | None:
    if clip.num_samples < _nmf.HOP or clip.seconds > MATERIALISE_SECONDS:
        return None
    with np.errstate(all="ignore"):  # overflow shows in the result
        spectrogram = _nmf.magnitudes(mono_blocks(clip), clip.num_samples)
        if not math.isfinite(float(spectrogram.sum(dtype=np.float64))):
            return None
        activations, spectra = _nmf.factors(spectrogram)
        signal = _nmf.power(activations[0], spectra[0])
        noise = _nmf.power(activations[1], spectra[1])
    if not (0 < signal < math.inf and 0 < noise < math.inf):
        return None
    return 10 * math.log10(signal / noise)
