"""Writes `utterances.parquet` of a version whole, in the order of its tars, and plans its output
shards. Each row group has whole tars.

An output shard whose rows equal those of the newest version is planned as a link to its files.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa

from ... import plugins
from ...base.arrays import Int64s
from ...base.json_types import JsonObject
from ...base.schema import UTTERANCES_FILE
from ...settings.job import Job
from ...storage import queries, tables
from .. import corpus
from ..choosing import next_version
from ..choosing.next_version import Choice
from ..outcomes.shard_batches import ShardBatch
from ..published_columns import row_schema, sources_of
from . import format_shards, plan
from .format_shards import PreviousVersion
from .layout import ShardClips

PLACE = "place"  # a row's place in the version


def write(
    job: Job,
    batches: Sequence[ShardBatch],
    chosen: Choice,
    shards: Sequence[ShardClips],
    previous: PreviousVersion | None,
    home: Path,
) -> None:
    """Write the table and the plan of the next version into its local folder `home`. Raises
    CorruptManifest if a shard batch is damaged. `previous`: without contents."""
    clips = np.concatenate([shard.rows for shard in shards])  # in the order of the version
    place_of_row = np.full(int(next_version.first_rows(batches)[-1]), -1, np.int32)
    place_of_row[chosen.clips.row[clips]] = np.arange(len(clips), dtype=np.int32)
    schema = row_schema(job)
    sources = sources_of(job)
    published = pa.schema([field for field in schema if field.name not in sources])

    def read(names: list[str]) -> pa.Table:  # in memory for all rows
        rows = next_version.rows_of(batches, chosen.clips.row[clips], names)
        return _named(rows, chosen, clips)

    places = format_shards.places(job.package.formats, read)
    planned = format_shards.with_places(published.empty_table(), places).schema
    placed = pa.schema([*schema, (PLACE, pa.int32())])
    parts = _placed(batches, place_of_row, schema.names)
    limits = job.package.memory, job.scratch
    with (
        queries.ordered(parts, placed, [PLACE], *limits) as ordered,
        queries.tables() as database,
        tables.row_group_writer(home / UTTERANCES_FILE, plan.in_order(published)) as write_rows,
    ):
        first, compared = 0, dict[str, list[str]]()
        if previous:
            compared = format_shards.compared(job, planned, previous)
            then = format_shards.published_contents(job, previous, compared, database)
            previous = replace(previous, contents=then)
        for part, (some, rows) in enumerate(_of_whole_shards(ordered, shards, schema)):
            span = clips[first : first + len(rows)]
            named = _named(rows, chosen, span)
            labelled = _labelled(job, named, chosen.frozen)
            to_plan = format_shards.with_places(labelled, places, first)
            content = format_shards.contents(database, [to_plan], to_plan.schema, compared)
            write_rows(plan.save(job, home, some, to_plan, previous, content, part))
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


def _named(rows: pa.Table, chosen: Choice, clips: Int64s) -> pa.Table:
    """The rows of these clips, with their splits and the names of speakers across recordings."""
    splits, spoken = chosen.clips.split[clips], chosen.clips.speaker[clips]
    return chosen.named(rows, splits, spoken)


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
