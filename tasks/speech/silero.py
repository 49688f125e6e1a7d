"""Speech probabilities of a stream: Silero VAD v6 by ONNX Runtime, in one sequential pass.

The weights are in faster-whisper's wheel, which is located without being imported. The model's
state is carried from the first sample to the last: a start in the middle, even with a minute of
warm-up, changes probabilities (by 0.012, measured). `fresh_probabilities` starts from an empty
state, for a second opinion on a few seconds.
"""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..audio.channels import mean
from ..base.arrays import Float32s
from ..models import model_files, registry, silero_graph
from ..models.onnx_session import session
from .mono_stream import MonoStream

if TYPE_CHECKING:
    import onnxruntime


WINDOW = 512  # samples of a window, 32 ms
CONTEXT = 64  # samples before each window that the model also gets
BATCH = 256  # windows per run; fixed, so that results do not depend on the blocks pushed
SHA256 = registry.SILERO.files[0].sha256


def weights() -> Path:
    """The model's file, checked. ConfigError if it is missing or a different model."""
    return model_files.located(registry.SILERO, "the voice detector")


@lru_cache(maxsize=1)
def _session() -> onnxruntime.InferenceSession:
    """One session per process; threads may share it."""
    return session(silero_graph.build(weights().read_bytes()), arena=False)


def fresh_probabilities(windows: Float32s) -> Float32s:
    """Probabilities [n] of consecutive windows, float32 [n, 512], from an empty state."""
    state = np.zeros((1, 1, 128), np.float32)
    return _infer(windows, np.zeros(CONTEXT, np.float32), state, state)[0]


def _infer(
    grid: Float32s, context: Float32s, h: Float32s, c: Float32s
) -> tuple[Float32s, Float32s, Float32s]:
    """Probabilities [n] of windows [n, 512] that follow `context`, and the new state."""
    before = np.concatenate([context[None], grid[:-1, -CONTEXT:]])
    inputs = {"input": np.concatenate([before, grid], axis=1), "h": h, "c": c}
    out, h, c = _session().run(None, inputs)
    return np.asarray(out, np.float32).reshape(-1), h, c


class Probabilities:
    """Takes samples at the native rate and returns speech probabilities of 32 ms windows. The
    result does not depend on the size of blocks, as the model gets fixed batches."""

    def __init__(self, rate: int) -> None:
        _session()  # fail before the first block if the model is missing
        self._audio = MonoStream(rate)
        self._held = np.empty(0, np.float32)  # samples at 16 kHz waiting for a batch
        self._context = np.zeros(CONTEXT, np.float32)
        self._h = np.zeros((1, 1, 128), np.float32)
        self._c = np.zeros((1, 1, 128), np.float32)
        self.windows = np.empty((0, WINDOW), np.float32)

    def push(self, block: Float32s) -> Float32s:
        """Take a block, float32 [n, channels]; return the finished probabilities.

        `windows` then holds their samples, float32 [n, 512] at 16 kHz.
        """
        self.windows = self.windows[:0]
        new = self._audio.push(mean(block, np.float32))
        return self._run(new, BATCH) if len(new) else new

    def finish(self) -> Float32s:
        """The remaining probabilities; the last window is padded with zeros."""
        rest = self._audio.finish()
        return self._run(np.pad(rest, (0, -(len(self._held) + len(rest)) % WINDOW)), 1)

    def _run(self, new: Float32s, least: int) -> Float32s:
        """Run the model on full batches, and on the rest if it has `least` windows."""
        samples = np.concatenate([self._held, new])
        outputs, start = [np.empty(0, np.float32)], 0
        while (windows := min((len(samples) - start) // WINDOW, BATCH)) >= least:
            grid = samples[start : start + windows * WINDOW].reshape(windows, WINDOW)
            out, self._h, self._c = _infer(grid, self._context, self._h, self._c)
            self._context = grid[-1, -CONTEXT:].copy()
            outputs.append(out)
            start += windows * WINDOW
        self._held = samples[start:].copy()
        self.windows = samples[:start].reshape(-1, WINDOW)
        return np.concatenate(outputs)
