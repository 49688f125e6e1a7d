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
    words. `members`: as of `Ignored`."""

    dataset: str
    source_path: str
    reason: str
    detail: str = ""
    members: int = 1


class SkippedEntries:
    """A list of `Skipped` stored as columns: there may be one per recording."""

    def __init__(self) -> None:
        self.reasons: Counter[str] = Counter()
        self._last: list[Skipped] = []
        self._chunks: list[pa.RecordBatch] = []

    def append(self, entry: Skipped) -> None:
        self.reasons[entry.reason] += entry.members
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
        counts = table.group_by("reason").aggregate([("members", "sum")])
        for reason in counts.to_pylist():
            self.reasons[reason["reason"]] += reason["members_sum"]
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
        if OTHER_ENDING not in self.reasons:
            return
        table = self.table()
        other = pc.equal(table["reason"].cast(pa.string()), OTHER_ENDING)
        table = table.filter(pc.and_(other, pc.match_substring_regex(table["source_path"], _RAW)))
        if len(table):
            path = pc.min(table["source_path"]).as_py()
            remedy = file_kinds.rateless(file_kinds.headerless(path))
            count = pc.sum(table["members"]).as_py()
            are = "is" if count == 1 else "are"
            yield f"{counted(count, 'file')} {are} not read, such as {path}: {remedy}"

    def __iter__(self) -> Iterator[Skipped]:
        for chunk in self.table().to_batches():
            yield from map(Skipped, *(column.to_pylist() for column in chunk.columns))


_WORD = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("dataset", _WORD),
        ("source_path", pa.string()),
        ("reason", _WORD),
        ("detail", _WORD),
        ("members", pa.int64()),
    ]
)


def _columns(entries: list[Skipped]) -> pa.RecordBatch:
    columns = zip(*entries, strict=True) if entries else ([],) * len(SCHEMA)
    arrays = [
        pa.array(list(column)).cast(field.type)
        for column, field in zip(columns, SCHEMA, strict=True)
    ]
    return pa.RecordBatch.from_arrays(arrays, schema=SCHEMA)
