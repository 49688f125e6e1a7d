"""Drops utterances with an empty text."""

from __future__ import annotations

from tasks.plugins.rules import Limit, Rule
from tasks.settings import StageSettings, Threshold


class Settings(StageSettings):
    min_chars: int = Threshold(1, "Fewest characters of text.", ge=1)


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (Limit("text_chars", min=settings.min_chars, low="empty_text"),)
