"""What kind of data each source was taken for, and what of it is skipped, for plans and runs."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from typing import TypedDict

from ... import plugins
from ...base import masking
from ...base.errors import MillError
from ...settings import Source


class SourceNotes(TypedDict):
    """The notes of one source."""

    source: str  # name of the dataset
    kind: str
    says: list[str]


def in_words(sources: Sequence[Source]) -> list[str]:
    """The notes of all sources, a sentence each."""
    return [f"Source {one['source']}: {says}." for one in notes(sources) for says in one["says"]]


def notes(sources: Sequence[Source]) -> list[SourceNotes]:
    """The notes of each source that has some. Listing a source that cannot be read now
    reports the error."""
    noted: list[SourceNotes] = []
    for dataset in plugins.datasets(sources):
        source, settings = dataset.source, dataset.settings
        sentences: list[str] = []
        with suppress(MillError, OSError):
            sentences += filter(None, [source.gives(settings)])
            sentences += source.notes(settings)  # which asks the source, and may not reach it
        if sentences and getattr(settings, "speaker", None) not in (None, "none"):
            sentences[0] += "; where nobody is named, speaker from `speaker`"
        says = [masking.text(sentence) for sentence in sentences]
        if says:
            noted.append({"source": dataset.name, "kind": dataset.settings.kind, "says": says})
    return noted
