"""Entries of sources that are not used as recordings, with reasons."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from ...base.counting import counted
from ...recording import file_kinds

CHUNK = 10_000
TEXT_ALONE = "text_without_audio"
OUTSIDE = "link_outside"
OTHER_ENDING = "extension"
_RAW = rf"(?i)\.({'|'.join(sorted(file_kinds.RATELESS))})$"


class Skipped(NamedTuple):
    """An entry of a source that is not used as a recording, with the reason, and details in
    words."""

    dataset: str
    source_path: str
    reason: str
    detail: str = ""


class SkippedEntries:
    """A list of `Skipped` stored as columns: there may be one per recording."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self._last: list[Skipped] = []
        self._chunks: list[pa.RecordBatch] = []

    def append(self, entry: Skipped) -> None:
        self.reasons[entry.reason] += 1
        self._last.append(entry)
        if len(self._last) == CHUNK:
            self._flush()

    def leave(self, rows: pa.Table, reason: str) -> None:
        """Add rows of RECORDINGS as skipped."""
        columns = (rows[name].to_pylist() for name in ("dataset", "source_path"))
        for dataset, path in zip(*columns, strict=True):
            self.append(Skipped(dataset, path, reason))

    def extend(self, table: pa.Table) -> None:
        """Add the rows of another list's `table`."""
        for reason in table["reason"].value_counts().to_pylist():
            self.reasons[reason["values"]] += reason["counts"]
        self._flush()
        self._chunks += table.cast(SCHEMA).to_batches()

    def _flush(self) -> None:
        self._chunks.append(_columns(self._last))
        self._last = []

    def table(self) -> pa.Table:
        return pa.Table.from_batches([*self._chunks, _columns(self._last)], SCHEMA)

    def unread_texts(self) -> Iterator[str]:
        """A sentence for each setting that would read texts which no recording takes."""
        if TEXT_ALONE not in self.reasons:
            return
        remedies: dict[str, list[str]] = {}
        for entry in self:
            if entry.reason == TEXT_ALONE and entry.detail.startswith("`"):
                remedies.setdefault(entry.detail, []).append(entry.source_path)
        for remedy, paths in sorted(remedies.items()):
            are = "is" if len(paths) == 1 else "are"
            count = counted(len(paths), "text")
            yield f"{count} {are} not read, such as {min(paths)}: {remedy}"

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
        if OTHER_ENDING not in self.reasons:
            return
        table = self.table()
        other = pc.equal(table["reason"].cast(pa.string()), OTHER_ENDING)
        table = table.filter(pc.and_(other, pc.match_substring_regex(table["source_path"], _RAW)))
        if len(table):
            path = pc.min(table["source_path"]).as_py()
            remedy = file_kinds.rateless(file_kinds.headerless(path))
            are = "is" if len(table) == 1 else "are"
            yield f"{counted(len(table), 'file')} {are} not read, such as {path}: {remedy}"

    def __iter__(self) -> Iterator[Skipped]:
        for chunk in self.table().to_batches():
            yield from map(Skipped, *(column.to_pylist() for column in chunk.columns))


_WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [("dataset", _WORD), ("source_path", pa.string()), ("reason", _WORD), ("detail", _WORD)]
)


def _columns(entries: list[Skipped]) -> pa.RecordBatch:
    columns = zip(*entries, strict=True) if entries else ([], [], [], [])
    arrays = [
        pa.array(list(column), pa.string()).cast(field.type)
        for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
