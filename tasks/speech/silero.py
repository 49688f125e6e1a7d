"""Silero VAD v6 by ONNX Runtime: speech probabilities of a stream in one sequential pass, and the
regions of speech that two thresholds make of them.

The weights are in faster-whisper's wheel, which is located without being imported. The model's
state is carried from the first sample to the last: a start in the middle, even with a minute of
warm-up, changes probabilities (by 0.012, measured). `fresh_probabilities` starts from an empty
state, for a second opinion on a few seconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from ..audio.channels import Heard
from ..audio.types import Weights
from ..base.arrays import RATE, Float32s
from ..models import model_files, registry
from ..models.onnx_session import session

if TYPE_CHECKING:
    import onnxruntime


WINDOW = 512  # samples of a window, 32 ms
CONTEXT = 64  # samples before each window that the model also gets
BATCH = 256  # windows per run; fixed, so that results do not depend on the blocks pushed
THRESHOLD, NEG_THRESHOLD = 0.5, 0.35
PAUSE_WINDOWS = 3  # windows below NEG_THRESHOLD that end a region: 96 ms
STEP = WINDOW / RATE  # s
#: Start and end in seconds.
Span = tuple[float, float]


class MonoStream:
    """Resamples a mono stream by libsoxr: the result does not depend on the size of blocks."""

    def __init__(self, native: int, rate: int = RATE, quality: str = "HQ") -> None:
        import soxr

        same = native == rate
        self._engine = None if same else soxr.ResampleStream(native, rate, 1, "float32", quality)

    def push(self, mono: Float32s, last: bool = False) -> Float32s:
        """Takes float32 [n]; returns the finished samples [m]."""
        if self._engine is None:
            return mono
        resampled: Float32s = self._engine.resample_chunk(np.ascontiguousarray(mono), last=last)
        return resampled

    def finish(self) -> Float32s:
        return self.push(np.empty(0, np.float32), last=True)


def identity(settings: object) -> str:
    """Of plug-ins that hear with it, for their recipes."""
    return registry.SILERO.files[0].sha256[:16]


def weights() -> Path:
    """The model's file, checked. ConfigError if it is missing or a different model."""
    return model_files.located(registry.SILERO, "the voice detector")


@lru_cache(maxsize=1)
def _session() -> onnxruntime.InferenceSession:
    """One session per process; threads may share it."""
    from ..models import silero_graph  # imports protobuf

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
    """Takes blocks at the native rate, which `Heard` mixes, and returns speech probabilities of 32
    ms windows. The result does not depend on the size of blocks, as the model gets fixed
    batches. `windows`: the samples of the last ones returned, float32 [n, 512] at 16 kHz."""

    def __init__(self, rate: int, weights: Weights | None = None) -> None:
        _session()  # fail before the first block if the model is missing
        self._ear, self._audio = Heard(np.float32, weights), MonoStream(rate)
        self._held = np.empty(0, np.float32)  # samples at 16 kHz waiting for a batch
        self._context = np.zeros(CONTEXT, np.float32)
        self._h = np.zeros((1, 1, 128), np.float32)
        self._c = np.zeros((1, 1, 128), np.float32)
        self.windows = np.empty((0, WINDOW), np.float32)

    def push(self, block: Float32s) -> Float32s:
        """Take a block, float32 [n, channels]; return the finished probabilities."""
        return self._run(self._audio.push(self._ear.push(block)), BATCH)

    def finish(self) -> Float32s:
        """The remaining probabilities; the last window is padded with zeros."""
        rest = np.concatenate([self._audio.push(self._ear.finish()), self._audio.finish()])
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


class Hysteresis:
    """Turns one probability per window into speech regions (start, end) in windows, as Silero's own
    code does.

    A region starts at a window of at least `threshold`. It ends at the first window below
    `neg_threshold`, confirmed by another one at least `pause_windows` later with no window of at
    least `threshold` in between.
    """

    def __init__(self, threshold: float, neg_threshold: float, pause_windows: int) -> None:
        self._threshold, self._neg_threshold = threshold, neg_threshold
        self._pause_windows = pause_windows
        self._at = 0
        #: Start of the open region; None outside of speech.
        self.start: int | None = None
        #: The end of the open region if the current pause is confirmed.
        self.pause: int | None = None

    def push(self, probability: float) -> tuple[int, int] | None:
        """Take the next window; return the region whose end it confirms, if any."""
        window, region = self._at, None
        self._at += 1
        if probability >= self._threshold:
            self.pause = None
            if self.start is None:
                self.start = window
        elif probability < self._neg_threshold and self.start is not None:
            if self.pause is None:
                self.pause = window
            if window - self.pause >= self._pause_windows:
                region = self.start, self.pause
                self.start = self.pause = None
        return region

    @property
    def until(self) -> int:
        """The open region lasts at least up to this window: the current pause, else all so far."""
        return self._at if self.pause is None else self.pause

    def regions(self, probabilities: Float32s) -> Iterator[tuple[int, int]]:
        for probability in probabilities.tolist():
            if (region := self.push(probability)) is not None:
                yield region

    def finish(self) -> list[tuple[int, int]]:
        region = [] if self.start is None else [(self.start, self.until)]
        self.start = self.pause = None
        return region


def spans(samples: Float32s) -> tuple[Span, ...]:
    """Speech regions of float32 [n] mono samples at 16 kHz, in order."""
    if not len(samples):
        return ()
    detector = Probabilities(RATE)
    probabilities = np.concatenate([detector.push(samples[:, None]), detector.finish()])
    # The first window counts towards a pause's length here, but not in Hysteresis.
    hysteresis = Hysteresis(THRESHOLD, NEG_THRESHOLD, PAUSE_WINDOWS - 1)
    regions = [*hysteresis.regions(probabilities), *hysteresis.finish()]
    seconds = len(samples) / RATE
    return tuple((start * STEP, min(end * STEP, seconds)) for start, end in regions)


def within(speech: Iterable[Span], start: float, end: float) -> float:
    """Seconds of speech between `start` and `end`."""
    return sum(max(0.0, min(last, end) - max(first, start)) for first, last in speech)
