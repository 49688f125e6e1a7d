"""Drops texts that do not cover the speech in their clip.

By then the recogniser has transcribed once more what its text left out, if it can (`tasks/asr`).
Seconds of speech come from the voice detector, words from the recogniser, not from a reference.
"""

from __future__ import annotations

from pydantic import Field

from tasks.plugins.rules import Limit, Rule
from tasks.settings import THRESHOLD
from tasks.text import Exemption


class Settings(Exemption):
    max_speech_after_text: float | None = Field(
        1.0,
        ge=0,
        json_schema_extra=THRESHOLD,
        description="Most speech behind the last word, s; null: any.",
    )
    min_words_per_speech_second: float | None = Field(
        0.4,
        ge=0,
        json_schema_extra=THRESHOLD,
        description="Fewest words (characters, where a script has no spaces) in a second of "
        "speech; null: any.",
    )


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (
        Limit(
            "speech_after_text",
            max=settings.max_speech_after_text,
            high="text_incomplete",
            unless=settings.confirmed,
        ),
        Limit(
            "words_per_speech_second",
            min=settings.min_words_per_speech_second,
            low="text_incomplete",
            unless=settings.confirmed,
        ),
    )
