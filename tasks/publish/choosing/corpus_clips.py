"""The clips of the whole corpus as columns, about 44 bytes a clip; their rows stay on disk."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from ... import storage
from ...base.arrays import Float64s, Int16s, Int32s, Int64s, UInt64s
from ...base.errors import RunError
from ...storage import long_columns, tables
from ..outcomes.shard_batches import VOICE, ShardBatch
from ..speakers import Speakers

CHOSEN = "chosen.arrow"
BATCH = 1 << 20  # clips handled at a time, so that no whole column is copied


class CorpusClips(NamedTuple):
    """All clips that passed the rules of their own shards, sorted by the hash of their ids."""

    high: UInt64s  # first half of the hash of the id
    low: UInt64s  # second half
    content: UInt64s  # digest of the row
    seconds: Float64s
    batch: Int32s  # number of the shard batch with its row
    row: Int32s  # number of the row in that batch
    speaker: Int32s  # index of the name of a speaker across recordings; -1: the row's own name

    def take(self, which: Any) -> CorpusClips:
        return CorpusClips(*(column[which] for column in self))


class Chosen(NamedTuple):
    """The clips of the next version."""

    clips: CorpusClips
    split: Int16s  # index into `names`
    names: list[str]
    speakers: list[str]  # names of speakers across recordings


def load(batches: Sequence[ShardBatch], linked: Speakers | None = None) -> CorpusClips:
    """All clips of these batches; `linked`: the speakers across recordings. Raises RunError if two
    clips have the same id."""
    sizes = [batch.count for batch in batches]
    count = sum(sizes)
    whole = CorpusClips(
        np.empty(count, np.uint64),
        np.empty(count, np.uint64),
        np.empty(count, np.uint64),
        np.empty(count, np.float64),
        np.repeat(np.arange(len(batches), dtype=np.int32), sizes),
        np.empty(count, np.int32),
        np.full(count, -1, np.int32),
    )
    columns = ("high", "low", "content", "samples", "rate", *([VOICE] if linked else []))
    begin = 0
    for batch, size in zip(batches, sizes, strict=True):
        table = batch.table("digests.arrow", columns)
        span = slice(begin, begin + size)
        for name in ("high", "low", "content"):
            getattr(whole, name)[span] = table[name].to_numpy()
        whole.seconds[span] = table["samples"].to_numpy() / table["rate"].to_numpy()
        whole.row[span] = np.arange(size, dtype=np.int32)
        if linked is not None:
            whole.speaker[span] = linked.of(table[VOICE].to_numpy())
        begin += size
    order = np.argsort(whole.high, kind="stable")
    for column in whole:
        column[:] = column[order]  # one at a time, so that only one is held twice
    del order
    _check_ids(batches, whole)
    return whole


def _check_ids(batches: Sequence[ShardBatch], clips: CorpusClips) -> None:
    """Raises RunError if two clips have the same id."""
    close = np.flatnonzero(clips.high[1:] == clips.high[:-1])
    same = close[clips.low[close] == clips.low[close + 1]]
    if len(same):
        row = rows_of(batches, clips.take(same[:1]), ("id", "recording")).to_pylist()[0]
        raise RunError(
            f"two utterances have the id {row['id']}; give the segments of {row['recording']} "
            "different ids"
        )


def save(
    scratch: Path,
    clips: CorpusClips,
    first_rows: Int64s,
    split: Int16s,
    names: list[str],
    spoken: list[str],
) -> None:
    """Save the chosen clips. `first_rows`: the place of each batch's first row among all rows;
    `split`: the split of the row at each place, an index into `names`, -1 for a row that is not
    chosen; `spoken`: names of the speakers across recordings."""
    fields = {name: pa.from_numpy_dtype(column.dtype) for name, column in clips._asdict().items()}
    metadata = {"names": "\n".join(names), "clips": str(int((split >= 0).sum()))}
    metadata["speakers"] = "\n".join(spoken)
    schema = pa.schema({**fields, "split": pa.int16()}, metadata)
    with storage.of(scratch).writing(scratch) as home, tables.writing(home / CHOSEN, schema) as out:
        for low in range(0, len(split), BATCH):
            some = clips.take(slice(low, low + BATCH))
            side = split[first_rows[some.batch] + some.row]
            columns = [column[side >= 0] for column in (*some, side)]
            out.write_batch(
                pa.record_batch([pa.array(values) for values in columns], schema=schema)
            )


def chosen(scratch: Path) -> Chosen:
    """The clips that `save` saved."""
    with tables.arrow(scratch / CHOSEN) as file:
        saved = pa.ipc.open_file(file)
        metadata = saved.schema.metadata
        columns = {
            field.name: np.empty(int(metadata[b"clips"]), field.type.to_pandas_dtype())
            for field in saved.schema
        }
        begin = 0
        for batch in map(saved.get_batch, range(saved.num_record_batches)):
            for name, column in columns.items():
                column[begin : begin + batch.num_rows] = batch[name].to_numpy()
            begin += batch.num_rows
    split = columns.pop("split")
    names, spoken = (metadata[key].decode().split("\n") for key in (b"names", b"speakers"))
    return Chosen(CorpusClips(**columns), split, names, spoken if spoken != [""] else [])


def rows_of(batches: Sequence[ShardBatch], clips: CorpusClips, columns: Sequence[str]) -> pa.Table:
    """These columns of the rows of some clips (at least one), in the order of the clips."""
    order = np.argsort(clips.batch, kind="stable")
    pieces = []
    edges = np.searchsorted(clips.batch[order], np.arange(len(batches) + 1))
    for number in np.unique(clips.batch).tolist():
        rows = clips.row[order[edges[number] : edges[number + 1]]]
        pieces.append(batches[number].table("rows.arrow", columns).select(columns).take(rows))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return long_columns.take(pa.concat_tables(pieces), back)
