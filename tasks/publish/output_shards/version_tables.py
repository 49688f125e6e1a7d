"""Writes the tables of a version whole, a row group at a time.

The ledger has all spans, sorted by recording, start, end and utterance; a recording that has left
its source keeps a row of 0 s; each row group has whole recordings. `utterances.parquet` is in the
order of the tars; each row group has whole tars, whose output shards are planned with it: one whose
rows equal those of the newest version as a link to its files.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from heapq import nsmallest
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import plugins
from ...accounting import broken, summary
from ...accounting.broken import Broken
from ...accounting.summary import REMOVED, Totals
from ...base.arrays import UInt64s
from ...base.json_types import JsonObject
from ...base.schema import LEDGER, LEDGER_FILE, UTTERANCES_FILE
from ...recording import forgotten
from ...recording.forgotten import Forgotten
from ...settings.job import Job
from ...storage import queries, sorted_keys, tables
from ...storage.versions import Proved
from .. import corpus
from ..choosing import next_version
from ..choosing.next_version import Choice
from ..outcomes.shard_batches import SPANS, ShardBatch
from ..published_columns import row_schema, sources_of
from . import format_shards, plan
from .format_shards import PreviousVersion
from .layout import ShardClips

#: Columns beside those of LEDGER: a row's number, which orders rows with equal times, and whether
#: the newest version does not have its recording.
NUMBER, NEW = "number", "new"
SCHEMA = pa.schema([*LEDGER, (NUMBER, pa.int64()), (NEW, pa.bool_())])
#: Columns that the row of a removed recording keeps.
NAMES = ("recording", "source_path", "dataset", "channel", "track", "sample_rate")


class Counted(NamedTuple):
    """What some recordings sum up to, and by dataset the first ones that failed."""

    totals: Totals
    broken: dict[str, list[Broken]]


@dataclass(frozen=True, slots=True)
class LedgerFacts:
    every: Counted  # all recordings
    new: Counted  # those that the newest version does not have
    gone: list[str]  # names of those that have left their source since the newest version


def write_ledger(
    job: Job,
    batches: Sequence[ShardBatch],
    rejected: Sequence[pa.Table | None],
    newest: Path | None,
    home: Path,
) -> LedgerFacts:
    """Write the ledger of the next version into its local folder `home`. `rejected`: corpus-wide
    rejections of each batch. Raises RunError if the ledger of the newest version is lost
    or damaged, and CorruptManifest if a shard batch is."""
    every, new = ([_counted(LEDGER.empty_table())] for _ in range(2))
    keys = [np.zeros(0, np.uint64)]
    for batch in batches:
        keys.append(_keys(batch.table(SPANS, ("recording",))["recording"].unique()))
    live, left = _before(newest, np.sort(np.concatenate(keys)))
    removed, gone = _removed(newest, left, forgotten.read(job.out))

    def rows() -> Iterator[pa.Table]:
        first = 0
        for batch, by_corpus in zip(batches, rejected, strict=True):
            rows = batch.ledger(strict=True, rejected=by_corpus)
            names = tables.coded(rows["recording"])
            is_new = sorted_keys.index_in(live, _keys(names.dictionary)) < 0
            numbers = np.arange(first, first := first + len(rows))
            added = numbers, is_new[names.indices.to_numpy()]
            yield pa.table([*rows.select(LEDGER.names).columns, *added], schema=SCHEMA)
        none = np.zeros(len(removed), np.int64)  # one row a recording
        yield pa.table([*removed.columns, none, none.astype(bool)], schema=SCHEMA)

    by = ["recording", "start", "end", "utterance", NUMBER]
    limits = job.package.memory, job.scratch
    with (
        queries.ordered(rows(), SCHEMA, by, *limits) as ordered,
        tables.row_group_writer(home / LEDGER_FILE, LEDGER) as write_rows,
    ):
        for portion in _of_whole_recordings(ordered):
            ledger = portion.select(LEDGER.names).cast(LEDGER)
            write_rows(ledger)
            every.append(_counted(ledger))
            new.append(_counted(ledger.filter(portion[NEW])))
    return LedgerFacts(_added(every), _added(new), gone)


def _keys(names: pa.Array | pa.ChunkedArray) -> UInt64s:
    return sorted_keys.draws("recording", names.to_pylist())


def _before(newest: Path | None, now: UInt64s) -> tuple[UInt64s, pa.Array]:
    """`_keys` of the recordings that were in their sources in the newest version, sorted, and the
    names of those in it that are not in `now`, which is sorted, too."""
    live, left = [np.zeros(0, np.uint64)], [pa.array([], pa.string())]
    if newest is not None:
        opened = Proved(newest)
        for rows in tables.row_groups(newest / LEDGER_FILE, ["recording", "reason"], opened):
            names = rows["recording"].unique()
            left.append(names.filter(pa.array(sorted_keys.index_in(now, _keys(names)) < 0)))
            live.append(_keys(summary.live(rows)["recording"].unique()))
    return np.sort(np.concatenate(live)), pa.concat_arrays(left)


def _removed(
    newest: Path | None, left: pa.Array, on_request: Forgotten
) -> tuple[pa.Table, list[str]]:
    """A row of 0 s for each of these recordings of the newest version, and the names of those that
    were not removed before, except what was removed on request."""
    names = [*NAMES, "reason"]
    first = [LEDGER.empty_table().select(names)]
    if newest is not None and len(left):
        for rows in tables.row_groups(newest / LEDGER_FILE, names):
            some = rows.filter(pc.is_in(rows["recording"], left))
            grouped = some.group_by("recording", use_threads=False)
            one = grouped.aggregate([(name, "first") for name in names[1:]])
            one = one.rename_columns([name.removesuffix("_first") for name in one.column_names])
            first.append(one.select(names))
    removed = on_request.without(pa.concat_tables(first))
    gone: list[str] = summary.live(removed)["recording"].to_pylist()
    nothing = {"start": 0.0, "end": 0.0, "samples": 0, "seconds": 0.0, "overlap_samples": 0}
    outcome = {"outcome": "dropped", "stage": "shard", "reason": REMOVED}
    columns = {
        name: pa.array([value] * len(removed)) for name, value in (nothing | outcome).items()
    }
    return tables.conformed(pa.table({n: removed[n] for n in NAMES} | columns), LEDGER), gone


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


# `utterances.parquet`.

PLACE = "place"  # a row's place in the version


def write_utterances(
    job: Job,
    batches: Sequence[ShardBatch],
    chosen: Choice,
    shards: Sequence[ShardClips],
    previous: PreviousVersion | None,
    home: Path,
) -> None:
    """Write the table and the plan of the next version into its local folder `home`. Raises
    CorruptManifest if a shard batch is damaged."""
    clips = np.concatenate([shard.rows for shard in shards])  # in the order of the version
    place_of_row = np.full(int(next_version.first_rows(batches)[-1]), -1, np.int32)
    place_of_row[chosen.clips.row[clips]] = np.arange(len(clips), dtype=np.int32)
    schema = row_schema(job)
    sources = sources_of(job)
    published = pa.schema([field for field in schema if field.name not in sources])

    def read(names: list[str]) -> pa.Table:  # in memory for all rows
        rows = next_version.rows_of(batches, chosen.clips.row[clips], names)
        return chosen.named(rows, chosen.clips.split[clips])

    places = format_shards.places(job.package.formats, read)
    planned = format_shards.with_places(published.empty_table(), places).schema
    placed = pa.schema([*schema, (PLACE, pa.int32())])
    parts = _placed(batches, place_of_row, schema.names)
    limits = job.package.memory, job.scratch
    # Most columns have a value of their own in each row: dictionaries make the file a tenth larger,
    # and take half of the time to write it and two thirds of the time to read it.
    target = home / UTTERANCES_FILE, plan.in_order(published)
    with (
        queries.ordered(parts, placed, [PLACE], *limits) as ordered,
        queries.tables() as database,
        tables.row_group_writer(*target, use_dictionary=False) as write_rows,
    ):
        first, compared, then = 0, dict[str, list[str]](), dict[str, UInt64s]()
        if previous:
            compared = format_shards.compared(job, planned, previous)
            then = format_shards.published_contents(job, previous, compared, database)
        for part, (some, rows) in enumerate(_of_whole_shards(ordered, shards, schema)):
            span = clips[first : first + len(rows)]
            named = chosen.named(rows, chosen.clips.split[span])
            labelled = _labelled(job, named, chosen.frozen)
            to_plan = format_shards.with_places(labelled, places, first)
            now = format_shards.contents(database, [to_plan], to_plan.schema, compared)
            same = {use: format_shards.same_as(some, now[use], then[use]) for use in compared}
            write_rows(plan.save(job, home, some, to_plan, previous, same, part))
            first += len(rows)


def _placed(
    batches: Sequence[ShardBatch], place_of_row: np.ndarray, columns: Sequence[str]
) -> Iterator[pa.Table]:
    """The rows of the version's clips with their PLACE, batch by batch."""
    begins = next_version.first_rows(batches)
    for batch, begin, end in zip(batches, begins[:-1], begins[1:], strict=True):
        place = place_of_row[begin:end]
        packaged = place >= 0
        if packaged.any():
            rows = batch.table("rows.arrow", columns).filter(pa.array(packaged))
            yield rows.append_column(PLACE, pa.array(place[packaged]))


def _of_whole_shards(
    batches: Iterator[pa.RecordBatch], shards: Sequence[ShardClips], schema: pa.Schema
) -> Iterator[tuple[list[ShardClips], pa.Table]]:
    """Consecutive output shards with their rows: at least `tables.ROWS`, but for the last."""
    unwritten, have = list[pa.RecordBatch](), 0
    some, wanted = list[ShardClips](), 0
    for number, shard in enumerate(shards):
        some.append(shard)
        wanted += len(shard.rows)
        if wanted < tables.ROWS and number + 1 < len(shards):
            continue
        while have < wanted:
            unwritten.append(next(batches).select(schema.names))
            have += len(unwritten[-1])
        table = pa.Table.from_batches(unwritten)
        yield some, table.slice(0, wanted).combine_chunks().cast(schema)
        unwritten, have = table.slice(wanted).to_batches(), have - wanted
        some, wanted = [], 0


def _labelled(job: Job, rows: pa.Table, frozen: JsonObject) -> pa.Table:
    """The rows with the labels that plug-ins derive from their frozen bounds over the corpus; no
    rule reads these labels."""
    for shelf, plugin in corpus.chosen(job):
        module, settings = plugins.MEASURING[shelf].resolve(plugin)
        if module.labelled is None:
            continue
        inputs = rows.select(["language", *module.asks(settings)])
        bounds = frozen.get(f"{shelf}.{plugin.use}", {})
        for name, values in module.labelled(inputs, settings, bounds).items():
            rows = tables.replaced(rows, name, pa.array(values, pa.string()))
    return rows
