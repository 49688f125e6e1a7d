"""How well the text of an utterance that `aligned` found agrees with what was heard there.

The share of its words that the recogniser heard in their order, of the longer of both, or of their
letters where that is more: 1 where all
were heard and nothing else. Null for utterances that were not cut by their text.
"""

from __future__ import annotations

from pydantic import Field

from tasks.audio import Clip
from tasks.plugins.rules import Limit, Rule
from tasks.settings import THRESHOLD, StageSettings

VERSION = 1
AFTER_ALL = True
COLUMNS = {
    "alignment": ("1", "share of the text's words, or letters, that were heard in the utterance")
}


class Settings(StageSettings):
    """Limits on the share."""

    min: float | None = Field(
        0.7, ge=0, le=1, json_schema_extra=THRESHOLD, description="Smallest share kept."
    )
    max: float | None = Field(
        None, ge=0, le=1, json_schema_extra=THRESHOLD, description="Largest share kept."
    )


def measure(clip: Clip, settings: Settings) -> dict[str, float | None]:
    return {"alignment": clip.match}


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (Limit("alignment", settings.min, settings.max, "misaligned", "aligned"),)
