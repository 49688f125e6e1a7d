"""Drops references that look like a machine's, or like captions that were read badly.

A source's text in capitals alone, or with neither capitals nor punctuation, is often a machine's.
One that says three words or more twice in a row is often made of captions that show each line
twice. OLMoASR (Ngo et al. 2025, arXiv 2508.20869) found such rules useful for captions of the web.
Not among the defaults: texts of whole corpora, such as LibriSpeech, are in capitals on purpose.
"""

import re
from collections.abc import Sequence

from . import ScoredTranscript, StageSettings, Threshold, words

COLUMNS = {
    "reference_suspect_capitals": (
        "1",
        "share of capitals among the reference's letters; null where punctuation stands for them",
    ),
    "reference_suspect_repeated": ("1", "share of its words in phrases said twice in a row"),
}
REASONS = dict.fromkeys(COLUMNS, ("reference_suspect", "reference_suspect"))
LEAST_LETTERS = 40  # fewer may be a part of a sentence, or an abbreviation
_MARKS = re.compile(r"[.,;:!?…]")
LEAST_WORDS, MOST_WORDS = 3, 60  # of a phrase that is said twice


class Settings(StageSettings):
    min_capitals: float | None = Threshold(
        0.001, "Least share of capitals; null: texts without any are kept.", ge=0, le=1
    )
    max_capitals: float | None = Threshold(
        0.8, "Largest share of capitals; null: texts in capitals are kept.", ge=0, le=1
    )
    max_repeated: float | None = Threshold(
        0.3, "Largest share of words in phrases of three words or more said twice.", ge=0, le=1
    )


def measure(heard: ScoredTranscript, settings: Settings) -> dict[str, float | None]:
    capitals, repeated = None, None
    if heard.reference:
        upper = sum(map(str.isupper, heard.reference))
        letters = upper + sum(map(str.islower, heard.reference))  # of scripts with case
        cased = upper or not _MARKS.search(heard.reference)  # else the middle of a sentence
        capitals = upper / letters if cased and letters >= LEAST_LETTERS else None
        spoken = words(heard.reference)
        repeated = said_twice(spoken) / len(spoken) if spoken else None
    return {"reference_suspect_capitals": capitals, "reference_suspect_repeated": repeated}


def said_twice(spoken: Sequence[str]) -> int:
    """How many words belong to phrases of at least LEAST_WORDS that follow themselves."""
    count = start = 0
    while start < len(spoken):
        longest = min((len(spoken) - start) // 2, MOST_WORDS)
        length = next(
            (
                n
                for n in range(longest, LEAST_WORDS - 1, -1)
                if spoken[start] == spoken[start + n]
                and spoken[start : start + n] == spoken[start + n : start + 2 * n]
            ),
            0,
        )
        count += 2 * length
        start += max(2 * length, 1)
    return count
