"""The words of a clip with their times, for formats that hold nothing else."""

from __future__ import annotations

from collections.abc import Sequence

from ..base.schema import ClipRow, WordRow

COLUMNS = ("id", "reference_words", "word_times")


def snippet(what: str) -> tuple[str, str]:
    """For the data card. `what`: what `uttermill list` prints."""
    return "bash", f"uttermill list . --format {{use}} --split {{split}}  # {what}\n"


def words_of(row: ClipRow) -> Sequence[WordRow]:
    """The words of the source's text if that was aligned, else the recogniser's."""
    return row.get("reference_words") or row.get("word_times") or ()


def written(word: WordRow) -> str:
    """The word without spaces, which separate the fields of a line."""
    return "_".join(word["word"].split())
