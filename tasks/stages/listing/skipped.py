"""Entries of sources that are not used as recordings, with reasons."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import pyarrow as pa

from ...base.counting import counted
from ...recording import file_kinds

TEXT_ALONE = "text_without_audio"
OUTSIDE = "link_outside"
OTHER_ENDING = "extension"
_RAW = re.compile(rf"\.({'|'.join(sorted(file_kinds.RATELESS))})$", re.I)


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
        """Add rows of RECORDINGS as skipped."""
        columns = (rows[name].to_pylist() for name in ("dataset", "source_path"))
        self.extend(Skipped(dataset, path, reason) for dataset, path in zip(*columns, strict=True))

    def unread_texts(self) -> Iterator[str]:
        """A sentence for each setting that would read texts which no recording takes."""
        remedies: dict[str, list[Skipped]] = {}
        for entry in self:
            if entry.reason == TEXT_ALONE and entry.detail.startswith("`"):
                remedies.setdefault(entry.detail, []).append(entry)
        for remedy, texts in sorted(remedies.items()):
            count, first = sum(text.members for text in texts), min(texts).source_path
            are = "is" if count == 1 else "are"
            yield f"{counted(count, 'text')} {are} not read, such as {first}: {remedy}"

    def outside(self) -> Iterator[str]:
        """A sentence if links out of a source were skipped."""
        if count := self.reasons[OUTSIDE]:
            first = min(entry.source_path for entry in self if entry.reason == OUTSIDE)
            what = counted(count, "link out of a source was", "links out of a source were")
            yield (
                f"{what} skipped, such as {first}; `follow_links: true` of the source takes them "
                "(--set sources.0.follow_links=true)"
            )

    def rateless(self) -> Iterator[str]:
        """A sentence if files without a header are not read."""
        files = [e for e in self if e.reason == OTHER_ENDING and _RAW.search(e.source_path)]
        if files:
            path, count = min(e.source_path for e in files), sum(e.members for e in files)
            remedy = file_kinds.rateless(file_kinds.headerless(path))
            are = "is" if count == 1 else "are"
            yield f"{counted(count, 'file')} {are} not read, such as {path}: {remedy}"
