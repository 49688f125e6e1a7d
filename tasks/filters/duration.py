"""Decoded length of the utterance, in seconds, and the error of the recording's header.

The difference is that of the whole recording, the same for each of its utterances; null if the
header gives no length.
"""

from __future__ import annotations

from pydantic import Field

from tasks.audio import Clip
from tasks.plugins.rules import Limit, Rule
from tasks.settings import THRESHOLD, StageSettings

VERSION = 3
AFTER_ALL = True
COLUMNS = {
    "duration": ("s", "decoded samples divided by the native rate"),
    "duration_difference": ("s", "decoded length of the whole recording minus the header's"),
}


class Settings(StageSettings):
    """Limits on the length, in seconds."""

    min: float | None = Field(
        0.1, ge=0, json_schema_extra=THRESHOLD, description="Shortest utterance kept, s."
    )
    max: float | None = Field(
        30.0, gt=0, json_schema_extra=THRESHOLD, description="Longest utterance kept, s."
    )
    min_difference: float | None = Field(
        None, json_schema_extra=THRESHOLD, description="Least excess over the header kept, s."
    )
    max_difference: float | None = Field(
        None, json_schema_extra=THRESHOLD, description="Largest excess over the header kept, s."
    )


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    header = clip.header_seconds
    return {
        "duration": clip.seconds,
        "duration_difference": None if header is None else clip.recording_seconds - header,
    }


def verdict(settings: Settings) -> tuple[Rule, ...]:
    s = settings
    wrong = "header_mismatch"
    return (
        Limit("duration", s.min, s.max, "too_short", "too_long"),
        Limit("duration_difference", s.min_difference, s.max_difference, wrong, wrong),
    )
