"""GTCRN removes noise from speech up to 8 kHz, with 48,000 weights (Rong et al. 2024).

doi 10.1109/ICASSP48485.2024.10448310; its graph passes states from one run of CHUNK frames to the
next (`tasks/models/gtcrn_graph.py`). 16 kHz, frames of 512 samples every 256, square root of Hann's
window in analysis and synthesis. What lies above 8 kHz comes from the original alone, `limit_db`
below it.
"""

import numpy as np
import scipy.fft

from ..base.arrays import Float32s
from ..models import onnx_session, registry
from ..settings import Transient
from . import Enhancer, EnhancerSettings

VERSION = 2
RATE = 16_000
USED_MODELS = (registry.GTCRN,)
ENGINES = {"onnxruntime": "InferenceSession"}
ASKED_BY = "enhance.use=gtcrn"

FFT, HOP = 512, 256
WINDOW = np.sin(np.pi * np.arange(FFT) / FFT).astype(np.float32)
CHUNK = 64  # frames of a run; fixed, so that results do not depend on the blocks pushed


class Settings(EnhancerSettings):
    path: str | None = Transient(
        None, "Folder with gtcrn.onnx; default: where `uttermill models fetch gtcrn` put it."
    )


class Stream:
    """One utterance; frame j is centred at sample 256 j."""

    def __init__(self, folder: str | None) -> None:
        self._model = onnx_session.known(registry.GTCRN, ASKED_BY, folder)
        given = {entry.name: entry.shape for entry in self._model.get_inputs() if entry.name != "x"}
        self._states = {name: np.zeros(shape, np.float32) for name, shape in given.items()}
        self._held = np.zeros(HOP, np.float32)  # from the next frame on
        self._count = self._given = 0  # samples
        self._tail: Float32s | None = None  # second half of the last frame

    def push(self, samples: Float32s) -> Float32s:
        self._count += len(samples)
        self._held = np.concatenate([self._held, samples])
        outputs = [np.zeros(0, np.float32)]
        while len(self._held) >= HOP * (CHUNK + 1):
            outputs.append(self._run(CHUNK))
        samples_out = np.concatenate(outputs)
        self._given += len(samples_out)
        return samples_out

    def finish(self) -> Float32s:
        if not self._count:
            return np.zeros(0, np.float32)
        count, given = self._count, self._given
        outputs = [self.push(np.zeros(2 * HOP, np.float32))]
        if rest := len(self._held) // HOP - 1:
            outputs.append(self._run(rest))
        return np.concatenate(outputs)[: count - given]

    def _run(self, count: int) -> Float32s:
        """Make the next `count` frames; returns the samples that become final."""
        frames = np.lib.stride_tricks.sliding_window_view(self._held, FFT)[::HOP][:count]
        self._held = self._held[HOP * count :]
        spectra = scipy.fft.rfft(frames * WINDOW, axis=1)
        given = np.stack([spectra.real, spectra.imag])[None].astype(np.float32)
        names = [f"{name}_next" for name in self._states]
        clean, *states = self._model.run(["y", *names], {"x": given, **self._states})
        self._states = dict(zip(self._states, states, strict=True))
        whole = scipy.fft.irfft(clean[0, 0] + 1j * clean[0, 1], FFT, axis=1)
        whole = whole.astype(np.float32) * WINDOW
        before = np.zeros(HOP, np.float32) if self._tail is None else self._tail
        halves = np.concatenate([before[None], whole[:, HOP:]])
        final: Float32s = (halves[:-1] + whole[:, :HOP]).reshape(-1)
        if self._tail is None:
            final = final[HOP:]  # before the first sample
        self._tail = halves[-1]
        return final


def start(settings: Settings) -> Enhancer:
    return Stream(settings.path)
