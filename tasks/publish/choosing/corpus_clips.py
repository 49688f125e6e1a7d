"""The clips of the whole corpus as columns, about 40 bytes a clip; their rows stay on disk.

A row's number counts the rows of all shard batches, batch by batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ...base.arrays import Float64s, Int16s, Int32s, Int64s, UInt64s
from ...base.errors import RunError
from ...storage import long_columns, tables
from .. import speakers
from ..outcomes.shard_batches import VOICE, ShardBatch
from ..speakers import Speakers


class CorpusClips(NamedTuple):
    """Clips that passed the rules of their own shards, sorted by the hash of their ids."""

    high: UInt64s  # first half of the hash of the id
    low: UInt64s  # second half
    seconds: Float64s
    row: Int32s  # number of the row
    speaker: Int32s  # index of the name of a speaker across recordings; -1: the row's own name
    split: Int16s  # index into the names of splits; -1: not packaged

    def take(self, which: Any) -> CorpusClips:
        return CorpusClips(*(column[which] for column in self))


class Chosen(NamedTuple):
    """The clips of the next version."""

    clips: CorpusClips
    names: list[str]  # of splits
    speakers: list[str]  # names of speakers across recordings


def first_rows(batches: Sequence[ShardBatch]) -> Int64s:
    """The number of each batch's first row, and the number of all rows; int64 [batches + 1]."""
    return np.cumsum([0, *(batch.count for batch in batches)])


def load(
    batches: Sequence[ShardBatch], split: Int16s, linked: Speakers | None = None
) -> CorpusClips:
    """All clips of these batches. `split`: of each row; `linked`: the speakers across recordings.
    Raises RunError if two clips have the same id."""
    begins = first_rows(batches)
    count = int(begins[-1])
    whole = CorpusClips(
        np.empty(count, np.uint64),
        np.empty(count, np.uint64),
        np.empty(count, np.float64),
        np.arange(count, dtype=np.int32),
        np.full(count, -1, np.int32),
        split.copy(),
    )
    for batch, begin, end in zip(batches, begins[:-1], begins[1:], strict=True):
        table, span = batch.table("clips.arrow"), slice(begin, end)
        whole.high[span], whole.low[span] = table["high"].to_numpy(), table["low"].to_numpy()
        whole.seconds[span] = table["samples"].to_numpy() / table["rate"].to_numpy()
        if linked is not None:
            whole.speaker[span] = linked.index_of(table[VOICE].to_numpy())
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
        [row] = rows_of(batches, clips.row[same[:1]], ("id", "recording")).to_pylist()
        raise RunError(
            f"two utterances have the id {row['id']}; give the segments of {row['recording']} "
            "different ids"
        )


def named(rows: pa.Table, chosen: Chosen, split: NDArray[Any], speaker: Int32s) -> pa.Table:
    """The rows of clips with their splits and the names of speakers across recordings, as far as
    they have these columns; `split`, `speaker`: as in CorpusClips."""
    if "split" in rows.column_names:
        sides = pa.array(chosen.names).take(pa.array(split))
        rows = tables.replaced(rows, "split", sides)
    if chosen.speakers and "speaker" in rows.column_names:
        rows = speakers.called(rows, speakers.names_of(speaker, pa.array(chosen.speakers)))
    return rows


def rows_of(batches: Sequence[ShardBatch], numbers: Int32s, columns: Sequence[str]) -> pa.Table:
    """These columns of the rows with these numbers (at least one), in this order."""
    order = np.argsort(numbers, kind="stable")
    begins = first_rows(batches)
    edges = np.searchsorted(numbers, begins, sorter=order)
    pieces = []
    for batch in np.flatnonzero(np.diff(edges)).tolist():
        rows = numbers[order[edges[batch] : edges[batch + 1]]] - begins[batch]
        pieces.append(batches[batch].table("rows.arrow", columns).select(columns).take(rows))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return long_columns.take(pa.concat_tables(pieces), back)
