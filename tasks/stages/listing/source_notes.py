"""What each source was taken for, and what of it is not taken, for plans and runs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypedDict

from tasks import plugins
from tasks.base import masking
from tasks.base.errors import MillError
from tasks.settings import Source


class SourceNotes(TypedDict):
    """What one source says of itself."""

    source: str  # name of the dataset
    kind: str
    says: list[str]


def in_words(sources: Sequence[Source]) -> list[str]:
    """The notes of all sources, a sentence each."""
    return [f"Source {one['source']}: {says}." for one in of(sources) for says in one["says"]]


def of(sources: Sequence[Source]) -> list[SourceNotes]:
    """The notes of each source that has some; one that cannot be looked at now says nothing, as
    whoever lists it tells why."""
    noted: list[SourceNotes] = []
    for dataset in plugins.datasets(sources):
        try:
            says = [masking.text(note) for note in dataset.source.notes(dataset.settings)]
        except (MillError, OSError):
            continue
        if says:
            noted.append({"source": dataset.name, "kind": dataset.settings.kind, "says": says})
    return noted
