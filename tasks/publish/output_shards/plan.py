"""The plan of a version: its rows in order, and the output shards that workers write.

It is kept in `.plan/` of the staging folder until the version is published, so that a worker call
needs only the number of its shard. Each row group of `utterances.parquet` has a part of its own:

    <part>/rows.arrow     the columns of its rows that formats read: a record batch for each tar,
                          without rows if the tar is linked in every format
    <part>/shards.arrow   its output shards, in every format
    hashes/<n>            digests of the files of shard n, written by `write`, then by `check`
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from ... import plugins, storage
from ...base.schema import UTTERANCES, ClipRow
from ...formats import Hashes, OutputShard, PublishedFile
from ...settings.job import Job
from ...storage import tables
from ..published_columns import PCM_COLUMNS, sources_of
from . import format_shards
from .format_shards import PreviousVersion
from .layout import ShardClips

PLAN, HASHES, ROWS, SHARDS = ".plan", "hashes", "rows.arrow", "shards.arrow"
PART_BITS = 24  # low bits of a shard's number: its index in its part
FILE = pa.struct({"path": pa.string(), "sha256": pa.string(), "size": pa.int64()}.items())
SHARD = pa.schema(
    {
        **dict.fromkeys(("format", "split"), pa.string()),
        **dict.fromkeys(("number", "group", "clips"), pa.int64()),
        "files": pa.list_(pa.string()),
        "unchanged": pa.list_(FILE),
    }
)


def write(
    job: Job,
    home: Path,
    shards: Sequence[ShardClips],
    rows: pa.Table,
    derived: Mapping[str, pa.Array],
    previous: PreviousVersion | None = None,
    part: int = 0,
) -> pa.Table:
    """Write the plan of a part into a local folder; returns its rows of `utterances.parquet`.

    `rows`: rows of the shards, in order; `derived`: columns of `format_shards.all_derived` for
    them.
    """
    folder = home / PLAN / part_name(part)
    folder.mkdir(parents=True)
    source_columns = [*sources_of(job)]
    planned = format_shards.with_columns(rows, derived)
    published = planned.drop_columns(source_columns)
    by_format = [
        format_shards.of_format(plugin, shards, published, previous, job.package.publish)
        for plugin in job.package.formats
    ]
    laid_out = _laid_out(job, shards, by_format[0], planned)
    seen = laid_out.select(_seen(job, laid_out))
    written = [not all(one.unchanged for one in some) for some in zip(*by_format, strict=True)]
    _save_rows(folder / ROWS, seen, [len(shard.rows) for shard in shards], written)
    entries = [asdict(one) for some in by_format for one in some]
    tables.write_arrow(folder / SHARDS, [pa.Table.from_pylist(entries, schema=SHARD)])
    return laid_out.drop_columns([*source_columns, *derived])


def part_name(part: int) -> str:
    return f"{part:05d}"


def number_of(part: int, index: int) -> int:
    """The number of an output shard among all: its part's number, then its index in it."""
    return part << PART_BITS | index


def part_and_index(number: int) -> tuple[str, int]:
    """(folder of the part, index in it) of an output shard; the inverse of `number_of`."""
    return part_name(number >> PART_BITS), number & ((1 << PART_BITS) - 1)


def _seen(job: Job, table: pa.Table) -> list[str]:
    """The columns of a part's rows that workers read: those that `rows` passes to formats, and
    those that say where PCM is stored."""
    seen = {"id", *PCM_COLUMNS}
    for plugin in job.package.formats:
        renamed = format_shards.own_columns(plugin.use, table.schema.empty_table())
        wanted = {*format_shards.seen(plugins.FORMATS.load(plugin.use), renamed).column_names}
        pairs = zip(table.column_names, renamed.column_names, strict=True)
        seen |= {name for name, own_name in pairs if own_name in wanted}
    return [name for name in table.column_names if name in seen]


def _laid_out(
    job: Job, shards: Sequence[ShardClips], of_format: list[OutputShard], table: pa.Table
) -> pa.Table:
    """The rows with their places (LAYOUT_COLUMNS) in the output shards of the first format."""
    module, settings = plugins.FORMATS.resolve(job.package.formats[0])
    paths, generations, offsets = [], [], []
    begin = 0
    for clips, shard in zip(shards, of_format, strict=True):
        paths += [shard.path] * shard.clips
        generations += [clips.generation] * shard.clips
        if module.offsets:
            offsets.append(module.offsets(table.slice(begin, shard.clips), settings))
        begin += shard.clips
    places = {
        "shard": pa.array(paths, pa.string()),
        "generation": pa.array(generations, pa.int32()),
        "offset": pa.array(np.concatenate(offsets)) if offsets else pa.nulls(begin, pa.int64()),
    }
    schema = in_order(table.schema)
    columns = [places[n] if n in places else table[n] for n in schema.names]
    return pa.table(columns, schema=schema)


def in_order(schema: pa.Schema) -> pa.Schema:
    """The columns of every version, then the others."""
    fields = {field.name: field for field in schema}
    every = [fields.pop(field.name, field) for field in UTTERANCES]
    return pa.schema([*every, *fields.values()])


def _save_rows(path: Path, table: pa.Table, counts: Sequence[int], written: Sequence[bool]) -> None:
    """Write an Arrow file with a record batch for each count of rows, so that a worker reads only
    its own; an empty one where no shard is `written`.

    Chunks are combined once for the whole table, because combining them for each of many batches
    would take most of the time.
    """
    table = table.combine_chunks()
    whole = table.to_batches()
    ends = np.cumsum(counts).tolist()
    with tables.writing(path, table.schema) as out:
        for low, high, is_written in zip([0, *ends[:-1]], ends, written, strict=True):
            high = high if is_written else low
            if len(whole) > 1:  # too much text for a single batch
                some = table.slice(low, high - low).combine_chunks().to_batches()
                [batch] = some or table.schema.empty_table().to_batches()
            else:
                batch = whole[0].slice(low, high - low)
            out.write_batch(batch)


def from_row(row: Mapping[str, Any]) -> OutputShard:
    """The output shard that a row (SHARD) describes."""
    unchanged = tuple(PublishedFile(**file) for file in row["unchanged"])
    return OutputShard(**{**row, "files": tuple(row["files"]), "unchanged": unchanged})


def parts(staging: Path) -> list[int]:
    """Numbers of the parts, in order."""
    return sorted(
        int(name) for name in storage.store_of(staging).folders(staging / PLAN) if name.isdigit()
    )


def shards_of(staging: Path, part: int) -> list[OutputShard]:
    """The output shards of one part, in order."""
    table = tables.read_arrow(staging / PLAN / part_name(part) / SHARDS)
    return [from_row(row) for row in table.to_pylist()]


def numbered(staging: Path) -> dict[int, OutputShard]:
    """All output shards by number, in order."""
    return {
        number_of(part, index): shard
        for part in parts(staging)
        for index, shard in enumerate(shards_of(staging, part))
    }


def shard(staging: Path, number: int) -> OutputShard:
    part, index = part_and_index(number)
    table = tables.read_arrow(staging / PLAN / part / SHARDS)
    return from_row(table.slice(index, 1).to_pylist()[0])


def rows(staging: Path, number: int, one: OutputShard, *more: str) -> list[ClipRow]:
    """The rows of an output shard as its format gets them, with `more` columns."""
    with tables.arrow(staging / PLAN / part_and_index(number)[0] / ROWS) as file:
        batch = pa.ipc.open_file(file).get_batch(one.group)
    columns = format_shards.own_columns(one.format, batch)
    return format_shards.rows_for(plugins.FORMATS.load(one.format), columns, *more)


def save_hashes(staging: Path, number: int, hashes: Hashes) -> None:
    """Record the digests of a shard's files. Only the shard's own worker call writes them, and they
    are read only after it has returned."""
    path, data = staging / PLAN / HASHES / str(number), json.dumps(hashes).encode()
    storage.store_of(staging).write(path, data)


def load_hashes(staging: Path, number: int) -> Hashes:
    return _hashes(storage.read(staging / PLAN / HASHES / str(number)))


def all_hashes(staging: Path, shards: Mapping[int, OutputShard]) -> Hashes:
    """Digests of the files of all shards; for linked files, those of the previous version."""
    saved = storage.store_of(staging).read_all(staging / PLAN / HASHES)
    hashes: Hashes = {}
    for number, shard in shards.items():
        if data := saved.get(str(number)):
            hashes |= _hashes(data)
        else:
            linked = zip(shard.files, shard.unchanged, strict=True)
            hashes |= {path: (old.sha256, old.size) for path, old in linked}
    return hashes


def _hashes(data: bytes) -> Hashes:
    return {path: (sha256, size) for path, (sha256, size) in json.loads(data).items()}
