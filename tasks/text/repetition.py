"""Drops texts that repeat the same words again and again: a recogniser's loop.

A loop is an n-gram of 1 to 8 words (characters, if a script has no spaces) at least five times
in a row; people say "no, no, no", rarely "no" five times. The measure is the share of the text's
words within its longest loop: 0 without a loop, 1 for nothing but a loop.
"""

from collections.abc import Sequence

from . import Exemption, ScoredTranscript, Threshold

COLUMNS = {"repetition": ("1", "share of words in an n-gram said five times or more in a row")}
REASONS = {"repetition": ("", "repetition")}
LONGEST_NGRAM = 8
TIMES = 5


class Settings(Exemption):
    max: float | None = Threshold(0.5, "Largest share of words within a loop.", ge=0, le=1)


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    words = heard.words
    return {"repetition": longest_loop(words) / len(words) if words else None}


def longest_loop(words: Sequence[str]) -> int:
    """Words of the longest stretch in which an n-gram follows itself TIMES times or more."""
    longest = 0
    if len(words) - len(set(words)) < TIMES - 1:  # most texts: too few repeated words
        return longest
    for n in range(1, min(LONGEST_NGRAM, len(words) // TIMES) + 1):
        same = 0  # consecutive words that equal the one n before
        for now, before in zip(words[n:], words, strict=False):
            same = same + 1 if now == before else 0
            if same >= (TIMES - 1) * n:
                longest = max(longest, same + n)
    return longest
