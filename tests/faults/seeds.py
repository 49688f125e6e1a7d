"""The load that showed the two old failures: every resampler, and OpenMP; see test_seeds.py."""

import os
import threading
from typing import Any

import numpy as np

#: Every resampler of the shelf, and those engines that librosa loads lazily.
LOAD: tuple[dict[str, str], ...] = (
    {"use": "soxr_hq"}, {"use": "soxr_vhq"}, {"use": "samplerate_sinc_best"},
    {"use": "resampy_kaiser_best"}, {"use": "librosa"},
    {"use": "librosa", "res_type": "kaiser_best"}, {"use": "librosa", "res_type": "sinc_best"},
    {"use": "librosa", "res_type": "kaiser_fast"},
)  # fmt: skip


def resampled(index: int) -> dict[str, Any]:
    """One call of a resampler plug-in, and what its process is like; nothing is caught."""
    from uttermill.tasks import plugins
    from uttermill.tasks.settings import Plugin
    from uttermill.tasks.stages.spawn_check import command_line

    module, settings = plugins.RESAMPLERS.resolve(Plugin.model_validate(LOAD[index % len(LOAD)]))
    tone = np.sin(2 * np.pi * 440 * np.arange(4410) / 44100).astype(np.float32)
    made = module.resample(tone, 44100, 16000, settings)
    return {
        "pid": os.getpid(), "command": command_line(), "thread": threading.get_ident(),
        "samples": len(made), "level": float(np.sqrt(np.mean(np.square(made)))),
    }  # fmt: skip


def openmp(_: int = 0) -> int:
    """A parallel region of GNU OpenMP, which scikit-learn brings; the process's number."""
    from sklearn.metrics import pairwise_distances_argmin  # a few ms, in OpenMP

    points = np.random.default_rng(0).normal(size=(4000, 8))
    pairwise_distances_argmin(points, points[:500])
    return os.getpid()
