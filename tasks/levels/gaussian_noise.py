"""White Gaussian noise at a random SNR: augmentation that is the same in every run.

The noise's power is the utterance's mean power divided by 10^(SNR / 10); the SNR is uniform in dB
between two limits. All randomness comes from `seed` and the samples, so equal audio gets equal
noise, on any worker and in any order. (Data-Juicer's mapper draws an amplitude instead, whatever
the level of the speech, from a generator that its caller seeds.) Silence stays silence.
"""

import hashlib
from typing import Self

import numpy as np
from pydantic import Field, model_validator

from ..base.arrays import Float32s
from ..settings import StageSettings

VERSION = 1


class Settings(StageSettings):
    min_snr_db: float = Field(10.0, ge=-30, le=100, description="Most noise, dB.")
    max_snr_db: float = Field(30.0, ge=-30, le=100, description="Least noise, dB.")
    probability: float = Field(1.0, ge=0, le=1, description="Share of utterances that get noise.")
    seed: int = Field(0, ge=0, description="Another seed gives other noise.")

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.min_snr_db > self.max_snr_db:
            raise ValueError("min_snr_db must not be above max_snr_db")
        return self


def apply(samples: Float32s, rate: int, settings: Settings) -> Float32s:
    content = hashlib.sha256(str(settings.seed).encode() + b"\0")
    content.update(np.ascontiguousarray(samples, "<f4").tobytes())
    random = np.random.Generator(np.random.PCG64(int.from_bytes(content.digest(), "big")))
    chosen = random.random() < settings.probability
    snr = random.uniform(settings.min_snr_db, settings.max_snr_db)
    power = float(np.mean(samples.astype(np.float64) ** 2))
    if not chosen or power == 0:
        return samples.copy()
    noise = random.standard_normal(len(samples))
    noise *= np.sqrt(power / 10 ** (snr / 10))
    return (samples + noise).astype(np.float32)
