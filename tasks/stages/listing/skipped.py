"""Entries of sources that are not used as recordings, with reasons; and what each source was taken
for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from typing import NamedTuple, TypedDict

import pyarrow as pa

from ... import plugins
from ...base import masking
from ...base.counting import counted
from ...base.errors import MillError
from ...recording import file_kinds
from ...settings import Source

TEXT_ALONE = "text_without_audio"
OUTSIDE = "link_outside"
OTHER_ENDING = "extension"


class Skipped(NamedTuple):
    """An entry of a source that is not used as a recording, with the reason, and details in
    words. `members`: as of `Ignored`."""

    dataset: str
    source_path: str
    reason: str
    detail: str = ""
    members: int = 1


class SkippedEntries(list[Skipped]):
    """Skipped entries. `reasons`: how many there are, also of those that are only counted."""

    def __init__(self) -> None:
        super().__init__()
        self.reasons: Counter[str] = Counter()

    def append(self, entry: Skipped) -> None:
        self.reasons[entry.reason] += entry.members
        super().append(entry)

    def extend(self, entries: Iterable[Skipped]) -> None:
        for entry in entries:
            self.append(entry)

    def leave(self, rows: pa.Table, reason: str) -> None:
        for row in rows.select(["dataset", "source_path"]).to_pylist():
            self.append(Skipped(row["dataset"], row["source_path"], reason))

    def sentences(self) -> Iterator[str]:
        """A sentence for each thing that a person can do about skipped entries."""
        by_remedy: dict[tuple[str, str, str], list[Skipped]] = {}
        for entry in self:
            if (remedy := _remedy(entry)) is not None:
                by_remedy.setdefault(remedy, []).append(entry)
        for (one, many, what), entries in sorted(by_remedy.items()):
            count, first = sum(entry.members for entry in entries), min(entries).source_path
            yield f"{counted(count, one, many)}, such as {first}{what}"


def _remedy(entry: Skipped) -> tuple[str, str, str] | None:
    """What to say of such entries: of one, of many, and what to do; None for most."""
    if entry.reason == TEXT_ALONE and entry.detail.startswith("`"):
        return "text is not read", "texts are not read", f": {entry.detail}"
    if entry.reason == OUTSIDE:
        return (
            "link out of a source was skipped",
            "links out of a source were skipped",
            "; `follow_links: true` of the source takes them (--set sources.0.follow_links=true)",
        )
    if entry.reason == OTHER_ENDING:
        how = file_kinds.rateless(file_kinds.headerless(entry.source_path))
        return ("file is not read", "files are not read", f": {how}") if how else None
    return None


# What kind of data each source was taken for, and what of it is skipped, for plans and runs.


class SourceNotes(TypedDict):
    source: str  # name of the dataset
    kind: str
    says: list[str]


def notes_in_words(sources: Sequence[Source]) -> list[str]:
    return [f"Source {one['source']}: {says}." for one in notes_of(sources) for says in one["says"]]


def notes_of(sources: Sequence[Source]) -> list[SourceNotes]:
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
