"""The plan of a version: its rows in order, and the output shards that workers write.

It lies in `.plan/` in the staging folder until the version is published, so that a worker call
needs only the number of its shard:

    rows.arrow     all rows in the order of the groups: a record batch for each group
    shards.arrow   a record batch for each output shard
    hashes/<n>     digests of the files of shard n: from `write`, then from `check`
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks import plugins, storage
from tasks.checkpoints.manifest import Row
from tasks.formats import Hashes, OutputShard, PublishedFile
from tasks.job import Job
from tasks.packaging import format_rows, layout
from tasks.packaging.layout import Group
from tasks.packaging.previous import PreviousVersion
from tasks.schema import UTTERANCES
from tasks.settings import Plugin
from tasks.storage import tables

#: Where a planned row's PCM is stored; not published.
SOURCE_COLUMNS = [("work_shard", pa.string()), ("blob", pa.string()), ("blob_offset", pa.int64())]
#: The columns that reading and checking a row's PCM needs.
PCM_COLUMNS = ("sha256", "num_samples", *(name for name, _ in SOURCE_COLUMNS))
LAYOUT_COLUMNS = ("shard", "generation", "offset")  # that the layout fills in
PLAN = ".plan"
SHARD = pa.schema(
    {
        "format": pa.string(),
        "split": pa.string(),
        "number": pa.int64(),
        "group": pa.int64(),
        "clips": pa.int64(),
        "files": pa.list_(pa.string()),
        "unchanged": pa.list_(
            pa.struct({"path": pa.string(), "sha256": pa.string(), "size": pa.int64()})
        ),
    }
)


def write(
    job: Job, staging: Path, groups: list[Group], rows: pa.Table, previous: PreviousVersion | None
) -> pa.Table:
    """Write the plan into a local folder; returns the version's `utterances.parquet`."""
    (staging / PLAN / "hashes").mkdir(parents=True)
    source_columns = [name for name, _ in SOURCE_COLUMNS]
    published = rows.drop_columns(source_columns)
    shards: list[OutputShard] = []
    derived: dict[str, pa.Array] = {}
    for plugin in job.package.formats:
        found, columns = _of_format(plugin, groups, published, previous)
        shards += found
        derived |= {_derived_name(plugin.use, name): values for name, values in columns.items()}
    for name, values in derived.items():
        rows = rows.append_column(name, values)
    first = [shard for shard in shards if shard.format == job.package.formats[0].use]
    laid_out = _laid_out(job, groups, first, rows)
    ends = np.cumsum([len(group.rows) for group in groups]).tolist()
    batches = (
        laid_out.slice(low, high - low) for low, high in zip([0, *ends[:-1]], ends, strict=True)
    )
    _save(staging / PLAN / "rows.arrow", laid_out.schema, batches)
    entries = (pa.Table.from_pylist([_to_row(shard)], schema=SHARD) for shard in shards)
    _save(staging / PLAN / "shards.arrow", SHARD, entries)
    return laid_out.drop_columns([*source_columns, *derived])


def _of_format(
    plugin: Plugin, groups: list[Group], published: pa.Table, previous: PreviousVersion | None
) -> tuple[list[OutputShard], dict[str, pa.Array]]:
    """The shards of one format, with the previous version's files where their content is the same;
    and the columns that the format derives."""
    module, settings = plugins.resolve("formats", plugin)
    now, derived = format_rows.with_derived(module, settings, published)
    then = None
    if previous and previous.has_format(plugin):
        # A measure that was added or removed since changes the files that hold it.
        other = set(published.column_names) ^ set(previous.rows.column_names)
        if not other & set(module.COLUMNS):
            then, _ = format_rows.with_derived(module, settings, previous.rows)
    groups_then = layout.groups_of(then) if then is not None else []
    places = {(split, number): (first, count) for split, number, first, count in groups_then}
    numbered = module.NUMBERED
    now = format_rows.visible(module, now)
    same = layout.same_as(groups, now, then, tuple(now.column_names))
    shards = []
    for index, (group, number_then) in enumerate(zip(groups, same, strict=True)):
        rows = now.take(group.rows)
        files = tuple(module.files(group.split, group.number, rows, settings))
        unchanged: tuple[PublishedFile, ...] = ()
        if number_then is not None and (number_then == group.number or not numbered):
            assert then is not None
            assert previous is not None
            first, count = places[group.split, number_then]
            rows = format_rows.visible(module, then).slice(first, count)
            unchanged = previous.files(module.files(group.split, number_then, rows, settings))
        shards.append(
            OutputShard(
                plugin.use, group.split, group.number, index, len(group.rows), files, unchanged
            )
        )
    return shards, derived


def _derived_name(use: str, column: str) -> str:
    """Name of a derived column in the plan: two formats may derive columns of one name."""
    return f"{use}:{column}"


def _laid_out(job: Job, groups: list[Group], shards: list[OutputShard], rows: pa.Table) -> pa.Table:
    """All rows in the order of the groups, with their places in the first format's `shards`."""
    module, settings = plugins.resolve("formats", job.package.formats[0])
    table = rows.take(np.concatenate([group.rows for group in groups]))
    paths, generations, offsets = [], [], []
    at = 0
    for group, shard in zip(groups, shards, strict=True):
        paths += [shard.path] * shard.clips
        generations += [group.generation] * shard.clips
        if module.offsets:
            offsets.append(module.offsets(table.slice(at, shard.clips), settings))
        at += shard.clips
    places = {
        "shard": pa.array(paths, pa.string()),
        "generation": pa.array(generations, pa.int32()),
        "offset": pa.array(np.concatenate(offsets)) if offsets else pa.nulls(at, pa.int64()),
    }
    more = [field for field in table.schema if field.name not in UTTERANCES.names]
    schema = pa.schema([*UTTERANCES, *more])
    columns = [places[n] if n in places else table[n] for n in schema.names]
    return pa.table(columns, schema=schema)


def _save(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
    """An Arrow file with a record batch for each table, so that a worker reads only its own."""
    with tables.writing(path, schema) as out:
        for table in parts:
            for batch in table.combine_chunks().to_batches():
                out.write_batch(batch)


def _load(path: Path, number: int) -> pa.RecordBatch:
    with tables.arrow(path) as file:
        return pa.ipc.open_file(file).get_batch(number)


def _to_row(shard: OutputShard) -> Row:
    return {**asdict(shard), "unchanged": [file._asdict() for file in shard.unchanged]}


def _from_row(row: Row) -> OutputShard:
    unchanged = tuple(PublishedFile(**file) for file in row["unchanged"])
    return OutputShard(**{**row, "files": tuple(row["files"]), "unchanged": unchanged})


def all_shards(staging: Path) -> list[OutputShard]:
    """All output shards, in order."""
    with tables.arrow(staging / PLAN / "shards.arrow") as file:
        return [_from_row(row) for row in pa.ipc.open_file(file).read_all().to_pylist()]


def shard(staging: Path, number: int) -> OutputShard:
    """One output shard."""
    return _from_row(_load(staging / PLAN / "shards.arrow", number).to_pylist()[0])


def rows(staging: Path, shard: OutputShard, *more: str) -> list[Row]:
    """A shard's rows as its format gets them, with `more` columns."""
    batch = _load(staging / PLAN / "rows.arrow", shard.group)
    prefix = _derived_name(shard.format, "")
    own = batch.rename_columns([name.removeprefix(prefix) for name in batch.schema.names])
    return format_rows.rows_for(plugins.load("formats", shard.format), own, *more)


def save_hashes(staging: Path, number: int, hashes: Hashes) -> None:
    """Record the digests of a shard's files. Only the shard's own worker call writes them, and
    nobody reads them before it has returned."""
    path, data = staging / PLAN / "hashes" / str(number), json.dumps(hashes).encode()
    storage.of(staging).write(path, data)


def load_hashes(staging: Path, number: int) -> Hashes:
    return _hashes(storage.read(staging / PLAN / "hashes" / str(number)))


def all_hashes(staging: Path, shards: list[OutputShard]) -> Hashes:
    """Digests of the files of all shards; of linked files, those of the previous version."""
    saved = storage.of(staging).read_all(staging / PLAN / "hashes")
    hashes: Hashes = {}
    for number, shard in enumerate(shards):
        if data := saved.get(str(number)):
            hashes |= _hashes(data)
        else:
            linked = zip(shard.files, shard.unchanged, strict=True)
            hashes |= {path: (old.sha256, old.size) for path, old in linked}
    return hashes


def _hashes(data: bytes) -> Hashes:
    return {path: (sha256, size) for path, (sha256, size) in json.loads(data).items()}
