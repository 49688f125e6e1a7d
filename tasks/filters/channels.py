"""Number of channels of the recording."""

from __future__ import annotations

from pydantic import Field

from tasks.audio import Clip
from tasks.plugins.rules import Limit, Rule
from tasks.settings import THRESHOLD, StageSettings

VERSION = 1
COLUMNS = {"channels": ("1", "channels as decoded")}


class Settings(StageSettings):
    """Limits on the number of channels; none unless asked for."""

    min: int | None = Field(
        None, ge=1, json_schema_extra=THRESHOLD, description="Fewest channels kept."
    )
    max: int | None = Field(
        None, ge=1, json_schema_extra=THRESHOLD, description="Most channels kept."
    )


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"channels": float(clip.channels)}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    s = settings
    return (Limit("channels", s.min, s.max, "too_few_channels", "too_many_channels"),)
