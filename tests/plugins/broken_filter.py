"""A filter whose library ends each process that loads it."""

from uttermill.tasks.audio import Clip
from uttermill.tasks.settings import StageSettings

VERSION = 1
COLUMNS = {"broken_filter": ("1", "nothing")}
ENGINES = {"tests.plugins.fatal_library": "run"}


class Settings(StageSettings):
    pass


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"broken_filter": 0.0}
