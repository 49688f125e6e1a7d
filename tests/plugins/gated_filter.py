"""The filter `duration` behind a gate."""

from tests.plugins import gate
from uttermill.tasks import plugins
from uttermill.tasks.audio import Clip
from uttermill.tasks.filters import duration

VERSION = duration.VERSION
COLUMNS = duration.COLUMNS
Settings = duration.Settings
verdict = plugins.FILTERS.load("duration").verdict


def measure(clip: Clip, settings: duration.Settings) -> dict[str, float | None]:
    gate.wait("filter", clip.num_samples / clip.rate)
    return duration.measure(clip, settings)
