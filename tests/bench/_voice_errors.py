"""Errors of measures against the truth, and their CPU time."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tests.helpers.timed_speech import Floats
from uttermill.tasks.audio import Clip
from uttermill.tasks.plugins.contracts import FilterModule

Measured = tuple[float | None, float]
"""(measured, true)"""


@dataclass
class Sum:
    """CPU time of a measure over all clips, and their length, s."""

    cpu: float = 0.0
    audio: float = 0.0

    def __str__(self) -> str:
        hour = 3600 * self.cpu / max(self.audio, 1e-9)
        return f"{hour:.1f} CPU s an hour of audio a core, {3600 / max(hour, 1e-9):.0f} × real time"


def measured(
    module: FilterModule, samples: Floats, rate: int, cost: Sum
) -> dict[str, float | None]:
    clip = Clip.of(samples, rate)
    began = time.process_time()
    measures = {**module.measure(clip, module.Settings())}
    cost.cpu += time.process_time() - began
    cost.audio += len(samples) / rate
    return measures


def percent_errors(pairs: Sequence[Measured]) -> str:
    """Relative errors, %: mean, mean magnitude, 95th percentile of it."""
    errors = np.array([value / true - 1 for value, true in pairs if value is not None])
    return _errors(100 * errors, len(pairs), "%")


def errors(pairs: Sequence[Measured], unit: str) -> str:
    """Errors in the unit: mean, mean magnitude, 95th percentile of it."""
    return _errors(np.array([v - true for v, true in pairs if v is not None]), len(pairs), unit)


def _errors(errors: Floats, clips: int, unit: str) -> str:
    none = f", {clips - len(errors)} without a number" if len(errors) < clips else ""
    if not len(errors):
        return f"{clips} clips{none}"
    sizes = np.abs(errors)
    return (
        f"{clips} clips{none}, off by {errors.mean():+.1f} {unit} in the mean, "
        f"{sizes.mean():.1f} in magnitude, {np.quantile(sizes, 0.95):.1f} at the 95th percentile"
    )
