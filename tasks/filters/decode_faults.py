"""Faults that the utterance has a part in: decoders complained there, or samples are missing.

A fault is a stretch of the recording: a page or frame whose checksum is wrong, a packet that the
decoder rejects, a hole in the times of a stream, an error that a decoder went on after. A hole of
known length is filled with silence, so that what follows keeps its time; where its length is
unknown, or nobody can say where in the recording it is, all that follows counts as damaged, too.
Formats without checksums and times (WAV, AAC) show only what breaks their decoder, or the lengths
in their headers.
"""

from __future__ import annotations

from pydantic import Field

from tasks.audio import Clip
from tasks.plugins.rules import Limit, Rule
from tasks.settings import THRESHOLD, StageSettings

VERSION = 1
AFTER_ALL = True
COLUMNS = {"decode_faults": ("1", "faults of the recording that the utterance touches or follows")}


class Settings(StageSettings):
    """Limits on the number of faults; without `max` damaged audio is kept."""

    min: float | None = Field(
        None, ge=0, json_schema_extra=THRESHOLD,
        description="Fewest faults in an utterance that is kept: to look at damaged audio alone.",
    )  # fmt: skip
    max: float | None = Field(
        0, ge=0, json_schema_extra=THRESHOLD,
        description="Most faults in an utterance that is kept; null: any number.",
    )  # fmt: skip


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"decode_faults": None if clip.faults is None else float(clip.faults)}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (Limit("decode_faults", settings.min, settings.max, "undamaged", "damaged"),)
