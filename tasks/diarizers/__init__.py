"""Diarizers: who speaks when in a recording."""

from ..plugins.contracts.audio import Diarizer
from ..recording.turns import Turn
from ..settings import StageSettings, Threshold


class CuttingSettings(StageSettings):
    """Settings that all diarizers with turns share; they change cuts, never turns."""

    min_turn_seconds: float = Threshold(
        0.5,
        "Shortest stretch of one speaker that is cut into clips, s; shorter ones are unsegmented.",
        ge=0,
        le=60,
    )
    mixed: bool = Threshold(False, "Cut without regard to turns: clips may hold several voices.")
