"""Drops utterances with an empty text."""

from __future__ import annotations

from pydantic import Field

from tasks.plugins.rules import Limit, Rule
from tasks.settings import THRESHOLD, StageSettings


class Settings(StageSettings):
    min_chars: int = Field(
        default=1, ge=1, json_schema_extra=THRESHOLD, description="Fewest characters of text."
    )


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (Limit("text_chars", min=settings.min_chars, low="empty_text"),)
