"""A filter that one run can be poisoned with in three ways, each by the length of a recording."""

from tests.plugins import poison
from uttermill.tasks.audio import Clip
from uttermill.tasks.plugins.rules import Rule
from uttermill.tasks.settings import StageSettings

VERSION = 1
COLUMNS = {"fatal": ("1", "nothing; it is there to be survived")}


class Settings(StageSettings):
    segv: float = -1.0
    memory: float = -1.0
    hang: float = -1.0


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    lengths: dict[float, poison.How] = {
        settings.segv: "segv", settings.memory: "memory", settings.hang: "hang",
    }  # fmt: skip
    for seconds, how in lengths.items():
        if abs(clip.seconds - seconds) < 1e-3:
            poison.harm(how)
    return {"fatal": 0.0}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return ()
