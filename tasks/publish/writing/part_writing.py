"""The rows of a part of a version, and what is written for it (`parts.py` plans them)."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import groupby, pairwise
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tasks import storage
from tasks.publish import corpus_labels, previous_version, speakers
from tasks.publish.outcomes import shard_batches, shard_outcomes
from tasks.publish.output_shards import plan
from tasks.publish.output_shards.format_shards import PreviousVersion
from tasks.publish.output_shards.layout import PlannedShard
from tasks.publish.writing.table_parts import SPEAKER, PlannedPart
from tasks.settings.job import Job
from tasks.storage import tables, versions
from tasks.storage.versions import Proved


def scatter(job: Job, number: int, scratch: Path) -> None:
    """On a worker: sort the rows of some shard batches by the parts that need them."""
    batches = shard_batches.listed(scratch)
    wanted = tables.read_arrow(scratch / f"wanted/{number}.arrow")
    batch, row = wanted["group"].to_numpy(), wanted["row"].to_numpy()
    rows_by_batch = {
        index: batches[index].table("rows.arrow") for index in np.unique(batch).tolist()
    }
    first = np.cumsum([0, *map(len, rows_by_batch.values())])[
        np.searchsorted([*rows_by_batch], batch)
    ]
    rows = (
        pa.concat_tables(rows_by_batch.values()).take(first + row).append_column("at", wanted["at"])
    )
    part = wanted["part"].to_numpy()
    edges = [0, *(np.flatnonzero(np.diff(part)) + 1).tolist(), len(part)]
    metadata = {"parts": json.dumps(part[edges[:-1]].tolist())}
    rows = rows.replace_schema_metadata(metadata)
    pieces = [rows.slice(low, high - low) for low, high in pairwise(edges)]
    with storage.of(scratch).writing(scratch) as home:
        tables.write_arrow(home / f"rows/{number}.arrow", pieces)


class Damaged(NamedTuple):
    """Names files of the previous version that are no longer as published; the parts that need them
    have to be planned again without them."""

    files: tuple[str, ...]


def write(
    job: Job, part: PlannedPart, scratch: Path, staging: Path, newest: Path | None
) -> tuple[str, int] | Damaged:
    """On a worker: plan a part and write its rows, or link it; returns the digest of its file."""
    # A dead worker's may be a link into a published version, which must not be written through.
    storage.of(staging).detach(staging / part.name)
    if part.file:
        return _link(job, part, staging, newest)
    digests = tables.read_arrow(scratch / f"parts/{part.number}.arrow")
    planned = json.loads(storage.read(scratch / f"parts/{part.number}.json"))
    members = [PlannedShard(**member) for member in planned["members"]]
    previous = _with_rows(newest, members) if newest is not None else None
    if isinstance(previous, Damaged):
        return previous
    rows = _rows(job, members, _fresh(planned["sources"], part.number, scratch), previous)
    if SPEAKER in digests.column_names:
        rows = speakers.called(rows, digests[SPEAKER])
    rows = corpus_labels.labelled(job, rows, scratch)
    other = {*previous_version.DIGESTS.names, SPEAKER}
    derived = {name: digests[name] for name in digests.column_names if name not in other}
    with storage.of(staging).writing(staging, job.scratch) as home:
        table = plan.write(job, home, members, rows, derived, previous, part.number)
        target = home / part.name
        target.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(table, target, compression="zstd")
        hashed = storage.hashed(target)
        shards = plan.shards_of(home, part.number)
        runs = [(m.split, m.generation, m.clips) for m in members]
        note = previous_version.tell(digests.select(previous_version.DIGESTS.names), runs, shards)
        (home / plan.PLAN / plan.part_name(part.number) / "told.arrow").write_bytes(note)
    return hashed


def _link(
    job: Job, part: PlannedPart, staging: Path, newest: Path | None
) -> tuple[str, int] | Damaged:
    """The part as it was, and its output shards, whose files are linked."""
    assert newest is not None
    files = versions.files(newest)
    entry = files.get(part.name)
    guard = previous_version.guard(previous_version.guards(job.out, newest), newest, part.name)
    try:
        old = storage.inside(newest, part.name)
        noted = previous_version.shards(job.out, part.file)
    except (OSError, ValueError, KeyError, TypeError):
        return Damaged((part.name,))
    if entry is None or not storage.of(newest).link(
        old, staging / part.name, entry["sha256"], entry["bytes"], guard
    ):
        return Damaged((part.name,))
    previous = PreviousVersion(newest, {"files": files}, ())
    shards = []
    for shard in noted:
        unchanged = previous.files(shard.files)
        if not unchanged and shard.files:
            return Damaged((part.name,))
        shards.append(replace(shard, unchanged=unchanged))
    with storage.of(staging).writing(staging, job.scratch) as home:
        folder = home / plan.PLAN / plan.part_name(part.number)
        folder.mkdir(parents=True, exist_ok=True)
        plan.save_shards(folder, shards)
    return entry["sha256"], entry["bytes"]


def _with_rows(newest: Path, members: Sequence[PlannedShard]) -> PreviousVersion | Damaged:
    """The previous version with the rows of these shards."""
    described, proved = versions.described(newest), Proved(newest)
    files = sorted({member.file for member in members if member.file})
    if damaged := [name for name in files if not proved.holds(name)]:
        return Damaged(tuple(damaged))
    pieces, places, begin = [], {}, 0
    for name in files:
        table = tables.read(newest / name)
        for member in members:
            if member.file == name:
                pieces.append(table.slice(member.then, member.clips))
                places[member.split, member.before] = begin, member.clips
                begin += member.clips
    if not pieces:
        return PreviousVersion(newest, described, ())
    rows = pa.concat_tables(pieces)
    return PreviousVersion(newest, described, tuple(rows.column_names), rows, places)


def _fresh(sources: Sequence[int], part: int, scratch: Path) -> pa.Table | None:
    """Rows of a part from the shard batches, in order."""
    batches = []
    for source in sources:
        with tables.arrow(scratch / f"rows/{source}.arrow") as file:
            stored = pa.ipc.open_file(file)
            number = json.loads(stored.schema.metadata[b"parts"]).index(part)
            batches.append(stored.get_batch(number).replace_schema_metadata())
    if not batches:
        return None
    table = pa.Table.from_batches(batches)
    order = np.argsort(table["at"].to_numpy(), kind="stable")
    return table.drop_columns(["at"]).take(order)


def _rows(
    job: Job,
    members: Sequence[PlannedShard],
    fresh: pa.Table | None,
    previous: PreviousVersion | None,
) -> pa.Table:
    """All rows of a part, in the order of its shards."""
    schema = shard_outcomes.row_schema(job)
    pieces, begin = [], 0
    for is_fresh, some in groupby(members, lambda member: member.fresh):
        run = [*some]
        count = sum(member.clips for member in run)
        if is_fresh:
            assert fresh is not None
            splits = np.repeat([member.split for member in run], [member.clips for member in run])
            piece, begin = fresh.slice(begin, count), begin + count
            place = piece.schema.get_field_index("split")
            piece = piece.set_column(
                place, piece.schema.field(place), pa.array(splits, pa.string())
            )
        else:  # one after the other in the previous version, too
            assert previous is not None
            assert previous.rows is not None
            firsts = [previous.places[member.split, member.before][0] for member in run]
            slices = zip(firsts, (member.clips for member in run), strict=True)
            piece = pa.concat_tables(previous.rows.slice(*span) for span in _runs(slices))
            piece = tables.conformed(piece, schema)
        pieces.append(piece.cast(schema).replace_schema_metadata())
    return pa.concat_tables(pieces).combine_chunks().cast(schema)


def _runs(slices: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """(first row, rows) with adjacent runs joined, since each slice of a column takes time."""
    runs: list[tuple[int, int]] = []
    for first, count in slices:
        if runs and sum(runs[-1]) == first:
            runs[-1] = runs[-1][0], runs[-1][1] + count
        else:
            runs.append((first, count))
    return runs
