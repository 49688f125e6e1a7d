"""Listed rows on their way to the workers and back, in files of a thousand rows in a scratch
folder, and merged with the rows of their shards.

The scheduler carries only a path and two numbers, and a worker reads at most one such file.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NotRequired, cast

import pyarrow as pa

from ... import storage
from ...base.arrays import FixedBytes, Int32s
from ...base.schema import RECORDINGS, RecordingRow
from ...storage import bounds, sorted_keys, tables
from . import entries

ROWS = 1000  # most in a file, within `bounds.BATCH_BYTES`
PLACE = "place"  # number of the shard that has the recording; -1: none
PROBED = (
    *("content", "header_rate", "header_channels", "header_seconds", "start_seconds"),
    *("format", "channels", "parts", "division", "copy_of"),
)
LISTED = pa.schema([*RECORDINGS, pa.field(PLACE, pa.int32())])


class ListedRow(RecordingRow):
    """A row of LISTED; `probed`: its file was read."""

    place: NotRequired[int]
    probed: NotRequired[bool]


class RowFiles:
    def __init__(self, home: Path, stem: str) -> None:
        self.files: list[tuple[Path, int]] = []  # with the number of rows
        self.count = 0
        self._home, self._stem = home, stem
        self._waiting: list[pa.Table] = []

    def add(self, rows: pa.Table, places: Int32s) -> None:
        self.count += len(rows)
        if len(rows):
            self._waiting.append(rows.append_column(PLACE, pa.array(places, pa.int32())))
            self._flush(ROWS)

    def close(self) -> None:
        self._flush(1)

    def tables(self) -> Iterator[pa.Table]:
        """The added rows, in order; call after `close`."""
        for path, _ in self.files:
            yield tables.read(path)

    def _flush(self, least: int) -> None:
        while sum(map(len, self._waiting)) >= least or (
            sum(table.nbytes for table in self._waiting) > bounds.BATCH_BYTES
        ):
            whole = pa.concat_tables(self._waiting)
            path = self._home / f"{self._stem}-{len(self.files):06d}.parquet"
            full = whole.slice(0, ROWS)
            save(full, path)
            self.files.append((path, len(full)))
            rest = whole.slice(ROWS)
            self._waiting = [rest] if len(rest) else []


def save(rows: pa.Table, path: Path) -> None:
    storage.store_of(path).write(path, tables.parquet(rows.cast(LISTED), compression="lz4"))


def merged(old: list[RecordingRow], rows: pa.Table | None, gone: FixedBytes) -> list[RecordingRow]:
    """The updated rows of a shard in their order, followed by new recordings."""
    index_by_name = {row["recording"]: index for index, row in enumerate(old)}
    if len(gone):
        leaving = sorted_keys.index_in(gone, entries.keys(index_by_name)) >= 0
        for old_row, is_gone in zip(old, leaving, strict=True):
            old_row["present"] = old_row["present"] and not is_gone
    listed: list[ListedRow] = rows.to_pylist() if rows is not None else []
    for row in listed:
        probed = row.pop("probed")
        del row["place"]
        index = index_by_name.get(row["recording"])
        if index is None:
            old.append(row)
        elif probed:
            row["present"] = row["error_code"] != "changed"
            old[index] = row
        else:
            old[index] = _redescribed(old[index], row)
    return old


def _redescribed(old: RecordingRow, row: RecordingRow) -> RecordingRow:
    """The row with the source's new description of unchanged bytes: texts, segments."""
    merged = with_probed(row, old)
    if old["error_code"] and not row["error_code"]:
        listed = {**old, "present": True, "error_code": None, "error_detail": None}
        # Found by probing its bytes, and not stated by its source.
        if old["content"] is None or entries.listed(listed) == old["listed"]:
            merged["error_code"], merged["error_detail"] = old["error_code"], old["error_detail"]
    return merged


def with_probed(row: RecordingRow, old: RecordingRow) -> RecordingRow:
    """A row with the probed values of `old`, which has the same bytes."""
    return cast(RecordingRow, {**row, **{name: old.get(name) for name in PROBED}})
