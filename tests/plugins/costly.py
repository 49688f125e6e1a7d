"""A costly filter that writes down what it measures."""

import os

from pydantic import Field

from uttermill.tasks.audio import Clip
from uttermill.tasks.plugins.rules import Limit, Rule
from uttermill.tasks.settings import THRESHOLD, StageSettings

VERSION = 1
COSTLY = True
COLUMNS = {"costly": ("s", "length")}


class Settings(StageSettings):
    max: float | None = Field(None, json_schema_extra=THRESHOLD)


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    with open(os.environ["UTTERMILL_COUNT"], "a") as handle:
        handle.write(f"{clip.seconds:.1f}\n")
    return {"costly": clip.seconds}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (Limit("costly", None, settings.max, "", "too_costly"),)
