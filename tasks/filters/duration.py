"""Length of the utterance as decoded, in seconds."""

from __future__ import annotations

from pydantic import Field

from tasks.audio import Clip
from tasks.rules import Limit, Rule
from tasks.settings import THRESHOLD, StageSettings

VERSION = 1
COLUMNS = {"duration": ("s", "decoded samples divided by the native rate")}


class Settings(StageSettings):
    """Limits on the length, in seconds."""

    min: float | None = Field(
        0.1, ge=0, json_schema_extra=THRESHOLD, description="Shortest utterance kept, s."
    )
    max: float | None = Field(
        30.0, gt=0, json_schema_extra=THRESHOLD, description="Longest utterance kept, s."
    )


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"duration": clip.num_samples / clip.rate}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (Limit("duration", settings.min, settings.max, "too_short", "too_long"),)
