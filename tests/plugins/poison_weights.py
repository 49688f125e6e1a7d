"""`poison` as a filter with a model: workers try it before their first clip."""

from pydantic import Field

from tests.plugins import poison
from uttermill.tasks.audio import Clip
from uttermill.tasks.settings import THRESHOLD

VERSION = 1
COLUMNS = {"poison_weights": ("1", "twice the length")}


class Settings(poison.Settings):
    max: float | None = Field(None, json_schema_extra=THRESHOLD)


def identity(settings: Settings) -> str:
    return "weights"


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    if settings.seconds == 0:
        poison.harm(settings.how)
    return {"poison_weights": 2 * clip.seconds}
