"""The filter `duration` behind a gate."""

from __future__ import annotations

from tasks import plugins
from tasks.audio import Clip
from tasks.filters import duration
from tests.plugins import gate

VERSION = duration.VERSION
COLUMNS = duration.COLUMNS
Settings = duration.Settings
verdict = plugins.FILTERS.load("duration").verdict


def measure(clip: Clip, settings: duration.Settings) -> dict[str, float | None]:
    gate.wait("filter", clip.num_samples / clip.rate)
    return duration.measure(clip, settings)
