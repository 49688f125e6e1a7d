"""FireRedVAD's detector of speech, singing and music: the model of the filters sounds and music
where their settings name none.

It gives probabilities for frames of 10 ms, here averaged over windows of 0.96 s every 0.48 s.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from ..audio import Clip
from ..audio.blocks import regroup
from ..base.arrays import RATE, Float32s, Float64s
from ..models import model_files, registry
from ..models.onnx_session import session
from ..speech.fbank import FLOOR, Fbank
from . import _derived as derived

FBANK = Fbank(whole=False, scale=32768.0)
HOP = 48  # frames from a window to the next, half of a window
CLASSES = ("speech", "singing", "music")  # of the graph
SILENT = np.log(np.float32(FLOOR))  # energy of digital silence at any gain
PIECE = round(derived.KEPT_SECONDS * RATE)  # samples that are heard at once


def path() -> Path:
    """The fetched graph. ConfigError, with the command that fetches it, if it is missing."""
    return model_files.located(registry.FIRERED, "the filter sounds or music")


class Detector:
    """The fetched model; `_sounds.Tagger` documents its methods."""

    window, step = 2 * HOP * FBANK.hop, HOP * FBANK.hop

    def __init__(self) -> None:
        ordered = ("speech", "music", "singing")  # as in `_sounds.GROUPS`
        self.groups = {group: [CLASSES.index(group)] for group in ordered}
        self._session = session(str(path()))

    def classes(self, clip: Clip, gain: float = 1.0) -> Float64s:
        parts = [self._probabilities(energies, gain) for energies in _energies(clip)]
        frames = np.concatenate([np.zeros((0, len(CLASSES))), *parts])
        starts = range(0, max(len(frames) - HOP, min(len(frames), 1)), HOP)
        means = [frames[start : start + 2 * HOP].mean(axis=0) for start in starts]
        return np.reshape(means, (-1, len(CLASSES)))

    def _probabilities(self, energies: Float32s, gain: float) -> Float64s:
        """[frames, classes]; NaN unless all energies are finite."""
        if not (len(energies) and np.isfinite(energies).all()):
            return np.full((len(energies), len(CLASSES)), np.nan)
        louder = energies + np.float32(2 * math.log(gain))
        given = np.where(energies > SILENT, louder, energies)
        [[probabilities]] = self._session.run(None, {"x": given[None]})
        return np.asarray(probabilities, np.float64)


def _energies(clip: Clip) -> Iterable[Float32s]:
    """A clip's log mel energies [frames, 80], piece by piece; computed once for a short clip."""

    def compute() -> Iterator[Float32s]:
        for piece in regroup(derived.blocks_16k(clip), PIECE):
            with np.errstate(invalid="ignore", over="ignore"):
                yield FBANK.log_energies(piece)

    if clip.seconds > derived.KEPT_SECONDS:
        return compute()
    return derived.cached(clip, "energies of sounds", lambda: [*compute()])
