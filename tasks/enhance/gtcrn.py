"""GTCRN takes noise out of speech up to 8 kHz with 48,000 weights (Rong et al. 2024).

doi 10.1109/ICASSP48485.2024.10448310; its streaming graph takes one frame at a time and hands its
state on. 16 kHz, frames of 512 samples every 256, square root of Hann's window in analysis and
synthesis. What lies above 8 kHz comes from the original alone, `limit_db` below it.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import scipy.fft
from numpy.typing import NDArray
from pydantic import Field

from tasks.enhance import Enhancer, _onnx
from tasks.enhance._settings import EnhancerSettings
from tasks.settings import TRANSIENT
from tasks.weights import finding, registry

if TYPE_CHECKING:
    import onnxruntime

VERSION = 1
RATE = 16_000
ENGINES = {"onnxruntime": "InferenceSession"}
ASKED_BY = "enhance.use=gtcrn"

Floats = NDArray[np.float32]
FFT, HOP = 512, 256
WINDOW = np.sin(np.pi * np.arange(FFT) / FFT).astype(np.float32)
STATES = {
    "conv_cache": (2, 1, 16, 16, 33),
    "tra_cache": (2, 3, 1, 1, 16),
    "inter_cache": (2, 1, 33, 16),
}


class Settings(EnhancerSettings):
    path: str | None = Field(
        None,
        json_schema_extra=TRANSIENT,
        description="Folder with gtcrn_simple.onnx; default: where `uttermill models fetch gtcrn` "
        "put it.",
    )


def identity(settings: Settings) -> str:
    """The hash of the model, which is checked before a worker starts."""
    return registry.GTCRN.files[0].sha256


def known_models(settings: Settings) -> tuple[registry.Model, ...]:
    return (registry.GTCRN,)


def check_weights(settings: Settings) -> None:
    """ConfigError where the model is missing or another one."""
    finding.located(registry.GTCRN, ASKED_BY, settings.path)


@lru_cache(maxsize=2)
def _session(path: Path) -> onnxruntime.InferenceSession:
    return _onnx.session(path.read_bytes())


class Stream:
    """One utterance; frame j is centred at sample 256 j."""

    def __init__(self, path: Path) -> None:
        self._model = _session(path)
        self._states = {name: np.zeros(shape, np.float32) for name, shape in STATES.items()}
        self._held = np.zeros(HOP, np.float32)  # from the next frame on
        self._count = self._given = 0  # samples
        self._tail: Floats | None = None  # second half of the last frame

    def push(self, samples: Floats) -> Floats:
        self._count += len(samples)
        self._held = np.concatenate([self._held, samples])
        made = []
        while len(self._held) >= FFT:
            frame = self._frame(self._held[:FFT])
            self._held = self._held[HOP:]
            if self._tail is not None:
                made.append(self._tail + frame[:HOP])
            self._tail = frame[HOP:]
        found = np.concatenate(made) if made else np.zeros(0, np.float32)
        self._given += len(found)
        return found

    def finish(self) -> Floats:
        count, given = self._count, self._given
        rest = self.push(np.zeros(2 * HOP, np.float32)) if count else np.zeros(0, np.float32)
        return rest[: count - given]

    def _frame(self, samples: Floats) -> Floats:
        spectrum = scipy.fft.rfft(samples * WINDOW)
        mix = np.stack([spectrum.real, spectrum.imag], axis=-1)[None, :, None]
        clean, *states = self._model.run(
            ["enh", *(f"{name}_out" for name in STATES)],
            {"mix": mix.astype(np.float32), **self._states},
        )
        self._states = dict(zip(STATES, states, strict=True))
        whole = scipy.fft.irfft(clean[0, :, 0, 0] + 1j * clean[0, :, 0, 1], FFT)
        found: Floats = whole.astype(np.float32) * WINDOW
        return found


def start(settings: Settings) -> Enhancer:
    return Stream(finding.located(registry.GTCRN, ASKED_BY, settings.path))
