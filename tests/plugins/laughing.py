"""A filter for tests: somebody laughs in the second third of each clip."""

from uttermill.tasks.audio import Clip
from uttermill.tasks.plugins.annotation_kinds import Event, Events
from uttermill.tasks.settings import StageSettings, Threshold

VERSION = 1
COLUMNS: dict[str, tuple[str, str]] = {}
ANNOTATIONS = {"laughing": Events("when somebody laughs", ("laughter",))}


class Settings(StageSettings):
    max_share: dict[str, float] = Threshold({}, "Largest share kept.")


def measure(clip: Clip, settings: Settings) -> dict[str, object]:
    third = clip.seconds / 3
    return {"laughing": [Event(third, 2 * third, "laughter", 1.0)]}
