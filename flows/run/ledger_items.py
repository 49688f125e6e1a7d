"""The rows of `uttermill ledger --items`: spans of the ledger, and skipped files."""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import TextIO

import pyarrow as pa

from ...tasks import storage
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.schema import LEDGER
from ...tasks.recording import file_kinds
from ...tasks.stages.listing.skipped import OTHER_ENDING, Skipped
from ...tasks.storage import tables, write_atomic
from . import run_folder

NAME = "left_aside.csv"  # in OUT/runs/<id>/
LEFT_ASIDE = "left_aside"  # outcome of a file that never became an item
#: Explanations of reasons that are not clear by themselves.
DETAILS = {
    "other_text": "an earlier row of the list names this audio with another text, which is used",
    "not_listed": "no row of the source's lists names this audio",
}
COLUMNS = (
    *("source_path", "start", "end", "outcome", "stage", "reason", "value", "threshold"),
    *("detail", "channel", "track"),
)
_SCHEMA = pa.schema([LEDGER.field(name) for name in (*COLUMNS, "dataset")])


def write_skipped(folder: Path, skipped: Iterable[Skipped]) -> None:
    text = io.StringIO(newline="")
    lines = csv.writer(text)
    lines.writerow(Skipped._fields)
    lines.writerows(sorted(skipped))
    write_atomic(folder / NAME, text.getvalue().encode())


def read_skipped(out: Path) -> list[Skipped]:
    folder = next(run_folder.having(out, NAME), None)
    if folder is None:
        return []
    try:
        lines = csv.reader(io.StringIO(storage.read(folder / NAME).decode(), newline=""))
        if not next(lines, None):
            raise ValueError("it has no header")
        return [Skipped(line[0], line[1], line[2], line[3], int(line[4])) for line in lines]
    except (ValueError, IndexError, TypeError, csv.Error):
        raise ConfigError(f"{folder / NAME} is damaged; the next run writes one anew") from None


def spans(ledger: Iterable[pa.Table]) -> Iterator[JsonObject]:
    """The rows of a ledger, given in parts, with COLUMNS and `dataset`."""
    for part in ledger:
        for batch in tables.conformed(part, _SCHEMA).to_batches(max_chunksize=4096):
            yield from batch.to_pylist()


def rows(
    spans: Iterable[JsonObject],
    skipped: Iterable[Skipped],
    reason: str | None = None,
    dataset: str | None = None,
) -> Iterator[JsonObject]:
    """One row per item. `reason` (with or without its stage) and `dataset` select items."""
    files = (
        dict.fromkeys(COLUMNS)
        | {"source_path": file.source_path, "outcome": LEFT_ASIDE, "stage": "shard"}
        | {"reason": file.reason, "detail": _detail(file), "dataset": file.dataset}
        for file in skipped
    )
    for row in chain(spans, files):
        named = reason in (None, row["reason"], f"{row['stage']}.{row['reason']}")
        if named and dataset in (None, row["dataset"]):
            yield row


def _detail(file: Skipped) -> str | None:
    detail = file.detail or DETAILS.get(file.reason)
    if detail is None and file.reason == OTHER_ENDING:
        detail = file_kinds.rateless(file_kinds.headerless(file.source_path))
    if file.members == 1:
        return detail
    more = f"and {file.members - 1:,} more members of the archive"
    return f"{detail}; {more}" if detail else more


#: A cell that a spreadsheet would compute, which could send the others elsewhere.
COMPUTED = re.compile(r"[=+\-@\t\r]")


def write_csv(
    items: Iterable[JsonObject],
    file: TextIO,
    shown: Callable[[str], str] = str,
    columns: Sequence[str] = COLUMNS,
) -> None:
    """`shown` prepares each text for the reader. An apostrophe before a text says to a spreadsheet
    that it is one."""
    lines = csv.writer(file, lineterminator="\n")
    lines.writerow(columns)
    for row in items:
        cells = (row.get(name) for name in columns)
        texts = (shown(cell) if isinstance(cell, str) else cell for cell in cells)
        lines.writerow(
            f"'{text}" if isinstance(text, str) and COMPUTED.match(text) else text for text in texts
        )
