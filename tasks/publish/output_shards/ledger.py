"""Writes the ledger of a version whole: all spans, sorted by recording, start, end and utterance.

A recording that has left its source keeps a row of 0 s. Each row group has whole recordings.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ...accounting import broken, summary
from ...accounting.broken import Broken
from ...accounting.summary import REMOVED, Totals
from ...base.schema import LEDGER, LEDGER_FILE
from ...recording import forgotten
from ...recording.forgotten import Forgotten
from ...settings.job import Job
from ...storage import queries, tables
from ...storage.versions import Proved
from ..outcomes import shard_batches
from ..outcomes.shard_batches import SPANS, ShardBatch

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

#: Columns beside those of LEDGER: a row's number, which orders rows with equal times, and whether
#: the newest version does not have its recording.
NUMBER, NEW = "number", "new"
#: Columns that the row of a removed recording keeps.
NAMES = ("recording", "source_path", "dataset", "channel", "track", "sample_rate")
SORTED = f"""
    SELECT given.* EXCLUDE ({NUMBER}), before.recording IS NULL AS {NEW}
    FROM given LEFT JOIN (SELECT recording FROM before WHERE live) AS before USING (recording)
    ORDER BY given.recording, start, "end", utterance, {NUMBER}
"""


class Counted(NamedTuple):
    """What some recordings sum up to, and by dataset the first ones that failed."""

    totals: Totals
    broken: dict[str, list[Broken]]


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    every: Counted  # all recordings
    new: Counted  # those that the newest version does not have
    gone: list[str]  # names of those that have left their source since the newest version


def write(
    job: Job,
    batches: Sequence[ShardBatch],
    rejected: Sequence[pa.Table | None],
    newest: Path | None,
    home: Path,
) -> LedgerFacts:
    """Write the ledger of the next version into its local folder `home`. `rejected`: corpus-wide
    rejections (OUTCOMES) of each batch. Raises RunError if the ledger of the newest version is lost
    or damaged, and CorruptManifest if a shard batch is."""
    nothing = _counted(LEDGER.empty_table())
    every, new = [nothing], [nothing]
    with queries.tables(job.package.memory, job.scratch) as database:
        removed, gone = _removed(database, batches, newest, forgotten.read(job.out))
        decided = (
            shard_batches.with_outcomes(batch.ledger(strict=True), outcomes)
            for batch, outcomes in zip(batches, rejected, strict=True)
        )
        rows = _numbered(chain(decided, [removed]))
        schema = pa.schema([*LEDGER, pa.field(NUMBER, pa.int64())])
        with (
            queries.streamed(database, rows, schema, SORTED) as ordered,
            tables.row_group_writer(home / LEDGER_FILE, LEDGER) as write_rows,
        ):
            for portion in _of_whole_recordings(ordered):
                ledger = portion.drop_columns([NEW]).cast(LEDGER)
                write_rows(ledger)
                every.append(_counted(ledger))
                new.append(_counted(ledger.filter(portion[NEW])))
    return LedgerFacts(_added(every), _added(new), gone)


def _removed(
    database: DuckDBPyConnection,
    batches: Sequence[ShardBatch],
    newest: Path | None,
    on_request: Forgotten,
) -> tuple[pa.Table, list[str]]:
    """A row of 0 s for each recording of the newest version that no shard batch has, and the names
    of those that were not removed before, except what was removed on request. Makes the table
    `before` of the newest version's recordings, `live` if they were in their sources then."""
    before = pa.schema([*(LEDGER.field(name) for name in NAMES), ("live", pa.bool_())])
    with queries.given(database, before.empty_table()):
        database.execute("CREATE TABLE before AS SELECT * FROM given")
    database.execute("CREATE TABLE now (recording VARCHAR)")
    if newest is not None:
        names = [*NAMES, "reason"]
        opened = Proved(newest)
        for rows in tables.row_groups(newest / LEDGER_FILE, names, opened=opened):
            firsts = [(name, "first") for name in names[1:]]
            first = rows.group_by("recording", use_threads=False).aggregate(firsts)
            first = first.rename_columns([n.removesuffix("_first") for n in first.column_names])
            live = pc.fill_null(pc.not_equal(first["reason"], REMOVED), True)
            queries.add(database, "before", first.select(NAMES).append_column("live", live))
        for batch in batches:
            recordings = batch.table(SPANS, ("recording",))["recording"].unique()
            queries.add(database, "now", pa.table({"recording": recordings}))
    left = database.sql(
        "SELECT before.* FROM before ANTI JOIN now USING (recording) ORDER BY recording"
    ).to_arrow_table()
    left = on_request.without(left)
    gone: list[str] = left.filter(left["live"])["recording"].to_pylist()
    nothing = {"start": 0.0, "end": 0.0, "samples": 0, "seconds": 0.0, "overlap_samples": 0}
    outcome = {"outcome": "dropped", "stage": "shard", "reason": REMOVED}
    columns = {name: pa.array([value] * len(left)) for name, value in (nothing | outcome).items()}
    removed = pa.table({name: left[name] for name in NAMES} | columns)
    return tables.conformed(removed, LEDGER), gone


def _numbered(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    first = 0
    for part in parts:
        yield part.append_column(NUMBER, pa.array(np.arange(first, first + len(part))))
        first += len(part)


def _of_whole_recordings(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.Table]:
    """The rows, sorted by recording, in tables of at least `tables.ROWS` that end with a
    recording; the last one may be smaller."""
    unwritten: list[pa.RecordBatch] = []
    for batch in batches:
        unwritten.append(batch)
        if sum(map(len, unwritten)) < tables.ROWS:
            continue
        names = batch["recording"]
        ends = pc.not_equal(names.slice(1), names.slice(0, len(names) - 1)).to_numpy(False)
        if not ends.any():
            continue
        last = int(np.flatnonzero(ends)[-1]) + 1
        yield pa.Table.from_batches([*unwritten[:-1], batch.slice(0, last)])
        unwritten = [batch.slice(last)]
    if unwritten:
        yield pa.Table.from_batches(unwritten)


def _counted(ledger: pa.Table) -> Counted:
    failed = ledger.filter(pc.equal(ledger["outcome"], "failed"))
    first = {
        name: broken.of_ledger(ledger.filter(pc.equal(ledger["dataset"], name)))
        for name in pc.unique(failed["dataset"]).to_pylist()
    }
    return Counted(summary.totals(ledger), first)


def _added(parts: Sequence[Counted]) -> Counted:
    named: dict[str, list[Broken]] = {}
    for part in parts:
        for name, some in part.broken.items():
            named[name] = nsmallest(broken.FIRST, [*named.get(name, ()), *some])
    return Counted(summary.added(part.totals for part in parts), named)
