"""How recordings are cut at turns: settings that all diarizers with turns share."""

from __future__ import annotations

from pydantic import Field

from tasks.settings import THRESHOLD, StageSettings


class CuttingSettings(StageSettings):
    """They change cuts, never turns."""

    min_turn_seconds: float = Field(
        0.5,
        ge=0,
        le=60,
        json_schema_extra=THRESHOLD,
        description="Shortest stretch of one speaker that is cut into clips, s; shorter ones are "
        "unsegmented.",
    )
    mixed: bool = Field(
        False,
        json_schema_extra=THRESHOLD,
        description="Cut without regard to turns: clips may hold several voices.",
    )
