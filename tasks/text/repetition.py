"""Drops texts that say the same words again and again: a recogniser's loop.

A loop is an n-gram of 1 to 8 words (characters, where a script has no spaces) that is said at least
five times in a row; people say "no, no, no", hardly "no" five times. Measured is the share of the
text's words within its longest loop: 0 where there is none, 1 where there is nothing else.
"""

from __future__ import annotations

from collections.abc import Sequence

from pydantic import Field

from tasks.plugins.rules import Limit, Rule
from tasks.settings import THRESHOLD
from tasks.text import Heard, Spares

COLUMNS = {"repetition": ("1", "share of words in an n-gram said five times or more in a row")}
LONGEST_NGRAM = 8
TIMES = 5


class Settings(Spares):
    max: float | None = Field(
        default=0.5, ge=0, le=1, json_schema_extra=THRESHOLD,
        description="Largest share of words within a loop.",
    )  # fmt: skip


def measure(heard: Heard, settings: Settings) -> dict[str, float | None]:
    words = heard.words
    return {"repetition": longest_loop(words) / len(words) if words else None}


def longest_loop(words: Sequence[str]) -> int:
    """Words of the longest stretch in which an n-gram follows itself TIMES times or more."""
    longest = 0
    if len(words) - len(set(words)) < TIMES - 1:  # most texts: too few words come again
        return longest
    for n in range(1, min(LONGEST_NGRAM, len(words) // TIMES) + 1):
        same = 0  # words in a row that are those of n before
        for now, before in zip(words[n:], words, strict=False):
            same = same + 1 if now == before else 0
            if same >= (TIMES - 1) * n:
                longest = max(longest, same + n)
    return longest


def verdict(settings: Settings) -> tuple[Rule, ...]:
    return (
        Limit("repetition", max=settings.max, high="repetition", unless=settings.confirmed),
    )  # fmt: skip
