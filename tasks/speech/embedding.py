"""Embeddings of speakers: CAM++ (zh-en) by ONNX Runtime on log mel energies.

Two pieces of the same voice have a cosine above 0.60, those of two voices one below 0.45 (4 s of
LibriSpeech: 5th and 99th percentile 0.70 and 0.48).
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tasks.speech.fbank import BINS
from tasks.weights import finding, registry
from tasks.weights.onnx_session import session

if TYPE_CHECKING:
    import onnxruntime

Floats = NDArray[np.float32]

SIZE = 192
SHA256 = registry.CAMPPLUS.files[0].sha256


def check(asked_by: str, folder: str | None) -> None:
    """ConfigError, with the command that brings it, where the model is missing or another one."""
    finding.located(registry.CAMPPLUS, asked_by, folder)


@lru_cache(maxsize=2)
def _session(folder: str | None) -> onnxruntime.InferenceSession:
    """One session per process; threads may share it."""
    return session(
        str(finding.located(registry.CAMPPLUS, "an embedding of speakers", folder)), arena=False
    )


def embed(features: Floats, folder: str | None = None) -> Floats:
    """Log mel energies [frames, 80] to an embedding [192] of length 1. At least 20 frames."""
    centred = (features - features.mean(axis=0))[None].astype(np.float32)
    assert centred.shape[2] == BINS
    found: Floats = _session(folder).run(None, {"x": centred})[0][0]
    return unit(found)


def unit(vectors: Floats) -> Floats:
    """Vectors [..., n] scaled to length 1; zeros stay zeros."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    found: Floats = (vectors / np.maximum(lengths, 1e-12)).astype(np.float32)
    return found
