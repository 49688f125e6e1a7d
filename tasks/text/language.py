"""Drops utterances in another language than wanted, or whose language is a guess.

A forced language has no probability: a person said so, and nothing is left to doubt. Nor is a guess
doubted where a reference in that language says what was heard.
"""

from __future__ import annotations

from pydantic import Field, field_validator

from tasks.rules import Allowed, Limit, Rule
from tasks.settings import THRESHOLD
from tasks.text import Spares


class Settings(Spares):
    allowed: tuple[str, ...] | None = Field(
        default=None, min_length=1, json_schema_extra=THRESHOLD,
        description="Languages to keep, ISO 639-1 codes; none given: any.",
    )  # fmt: skip
    min_probability: float = Field(
        default=0.8, ge=0, le=1, json_schema_extra=THRESHOLD,
        description="Least probability of the detected language; 0.8 is Emilia's.",
    )  # fmt: skip

    @field_validator("allowed")
    @classmethod
    def _codes(cls, value: tuple[str, ...] | None) -> tuple[str, ...] | None:
        for code in value or ():
            # Whisper's codes: two letters, or three as in `yue` and `haw`.
            if not (code.isascii() and code.isalpha() and code.islower() and len(code) in (2, 3)):
                raise ValueError(f"{code!r} is no language code; write en, es, yue")
        return value


def verdict(settings: Settings) -> tuple[Rule, ...]:
    certain = Limit(
        "language_probability", min=settings.min_probability, low="language_uncertain",
        unless=settings.confirmed,
    )  # fmt: skip
    if settings.allowed is None:
        return (certain,)
    return (Allowed("language", settings.allowed, "wrong_language"), certain)
