"""Chooses the shard of each recording: the one that has it or its bytes, else a new one; and sorts
listed rows by shard."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from heapq import heapreplace
from itertools import chain
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import plugins
from ...base.arrays import Bools, FixedBytes, Float64s, Int64s, UInt64s
from ...base.schema import RecordingRow
from ...settings.job import Job
from ...storage import queries, sorted_keys, tables
from . import entries, known_recordings, survey
from .known_recordings import BYTES_A_SECOND, LISTED, PLACE, KnownRecordings
from .survey import Survey


def incoming(surveyed: Survey, results: Sequence[Path]) -> Iterator[tuple[pa.Table, bool]]:
    """Tables of all rows for shards, in a stable order; with each, whether it was just probed."""
    for path in results:
        yield tables.read(path), True
    for table in surveyed.redescribed.tables():
        yield table, False


def shards_of(job: Job, surveyed: Survey, results: Sequence[Path], gone: FixedBytes) -> Int64s:
    """The number of the shard for each incoming row, -1 for none; adds new shards to the known
    ones."""
    given: list[Int64s] = [np.zeros(0, np.int64)]
    places: list[Int64s] = []  # indices of new recordings among all rows
    seconds: list[Float64s] = []
    contents: list[UInt64s] = []  # 0 where the bytes could not be read
    names: list[pa.Table] = []
    begin = 0
    for table, probed in incoming(surveyed, results):
        place = table[PLACE].to_numpy().astype(np.int64)
        if probed:
            divided = table["parts"].is_valid().to_numpy()  # a part of a file has its own place
            parts = table["recording"].filter(pa.array(divided)).to_pylist()
            row = surveyed.known.find(entries.keys(parts))
            place[divided] = np.append(surveyed.known.columns.shard, -1)[row]  # -1 for row -1
            moving = pc.equal(table["error_code"], "changed").fill_null(False).to_numpy()
            surveyed.left.leave(table.filter(pa.array(moving)), survey.STILL_WRITTEN)
            fresh = (place < 0) & ~moving
            new_rows = table.filter(pa.array(fresh))
            sound = pc.if_else(pc.is_null(new_rows["error_code"]), new_rows["content"], None)
            places.append(begin + np.flatnonzero(fresh))
            seconds.append(known_recordings.seconds_of(new_rows))
            contents.append(entries.heads(sound.to_pylist()))
            names.append(new_rows.select(["recording"]))
        given.append(place)
        begin += len(table)
    numbers = np.concatenate(given)
    if places:
        new = np.concatenate(places)
        bytes_of = np.concatenate(contents)
        had = surveyed.known  # those that are no longer in the sources, now or before
        away = ~had.present
        away |= sorted_keys.index_in(gone, had.columns.keys) >= 0
        numbers[new] = with_bytes(had, bytes_of, away)
        rest = np.flatnonzero(numbers[new] < 0)
        if job.filter.duplicate_files == "drop":
            numbers[new[rest]] = with_bytes(surveyed.known, bytes_of[rest])
            rest = rest[numbers[new[rest]] < 0]
        first, group = _groups(job, bytes_of[rest])
        titles = tables.take(pa.concat_tables(names), rest[first])["recording"]
        lengths = np.concatenate(seconds)[rest[first]]
        numbers[new[rest]] = _new_shards(job, surveyed.known, lengths, titles)[group]
    return numbers


def with_bytes(had: KnownRecordings, wanted: UInt64s, among: Bools | None = None) -> Int64s:
    """For each content in `wanted`, the number of the first shard with a recording of the same
    bytes; -1: none. `among`: which known recordings count; None: those in the sources."""
    columns = had.columns.where(had.present if among is None else among)
    order = np.lexsort((columns.shard, columns.contents))
    shards = sorted_keys.value_of(columns.contents[order], columns.shard[order], wanted)
    return np.where(wanted == 0, -1, shards).astype(np.int64)


def _groups(job: Job, contents: UInt64s) -> tuple[Int64s, Int64s]:
    """Groups recordings of the same bytes, which share a shard: the index of the first of each
    group, and for every recording the number of its group."""
    every = np.arange(len(contents))
    if job.filter.duplicate_files == "keep":
        return every, every
    alone = every.astype(np.uint64)  # unreadable ones
    _, first, group = np.unique(
        np.where(contents == 0, alone, contents), return_index=True, return_inverse=True
    )
    order = np.argsort(first)
    return first[order], np.argsort(order)[group]


def _new_shards(
    job: Job, had: KnownRecordings, seconds: Float64s, names: pa.ChunkedArray
) -> Int64s:
    """Adds shards for new recordings; returns the number of each one's shard."""
    first = max((int(name.split("-")[1]) for name in had.shards), default=-1) + 1
    known_seconds = math.fsum(had.columns.seconds[had.present])
    groups, count = assigned(seconds, names, job.shard.hours, least(job), known_seconds)
    groups += len(had.shards)
    had.shards += [f"shard-{number:06d}" for number in range(first, first + count)]
    return groups


@contextmanager
def in_shards(
    job: Job, surveyed: Survey, results: Sequence[Path], numbers: Int64s
) -> Iterator[Iterator[tuple[int, pa.Table]]]:
    """(number of a shard, its incoming rows by name), in the order of shards; the column `probed`
    says whether a row was just probed."""
    schema = LISTED.append(pa.field("probed", pa.bool_()))

    def rows() -> Iterator[pa.Table]:
        begin = 0
        for table, probed in incoming(surveyed, results):
            mine = numbers[begin : begin + len(table)]
            begin += len(table)
            table = table.drop_columns([PLACE]).append_column(PLACE, pa.array(mine, pa.int32()))
            table = table.append_column("probed", pa.array(np.full(len(table), probed)))
            yield table.filter(pa.array(mine >= 0)).select(schema.names)

    by, package = (PLACE, "recording"), job.package
    with queries.ordered(rows(), schema, by, package.memory, job.scratch) as batches:
        yield _by_shard(batches, schema)


def _by_shard(
    batches: Iterator[pa.RecordBatch], schema: pa.Schema
) -> Iterator[tuple[int, pa.Table]]:
    waiting = schema.empty_table()
    for batch in chain(batches, [None]):
        if batch is not None:
            rows = pa.Table.from_batches([batch]).cast(schema)
            waiting = pa.concat_tables([waiting, rows])
        shards = waiting[PLACE].to_numpy()
        begins = np.flatnonzero(np.diff(shards, prepend=-1)).tolist()
        ends = [*begins[1:], len(shards)] if batch is None else begins[1:]
        for begin, end in zip(begins, ends, strict=False):  # the last one may go on
            yield int(shards[begin]), waiting.slice(begin, end - begin)
        waiting = waiting.slice(ends[-1] if ends else 0)


# Distributes recordings over shards of about equal duration.


MINUTE, HOUR = 60.0, 3600.0
#: Least audio of a shard by default. A minute is ten seconds of work for a recogniser on a CPU, and
#: a tenth of that without one: Prefect's share, 25 ms of CPU a task run, would be most of it.
LEAST, LEAST_UNHEARD = MINUTE, 15 * MINUTE
#: Hours of the largest corpus with shards of an hour; each shard is five files in as many folders.
MOST_OF_AN_HOUR = 20_000


def least(job: Job) -> float:
    """The default minimum of audio in a shard, s."""
    recogniser = plugins.ASR.load(job.transcribe.backend.use)
    return LEAST if recogniser.Backend.RATE else LEAST_UNHEARD


def assigned(
    seconds: Float64s,
    names: pa.Array | pa.ChunkedArray,
    hours: float | None,
    smallest: float = LEAST,
    known_seconds: float = 0.0,
) -> tuple[Int64s, int]:
    """Distributes recordings over groups of about equal duration by header: longest first, each to
    the lightest group. Returns the group of each, and the number of groups. `known_seconds`: audio
    that the corpus already has.

    A recording that fills a group by itself counts as one group, however long it is: otherwise one
    of an hour among fifty short ones would scatter these over as many groups as it has minutes.
    """
    total = float(seconds.sum())
    largest = max(HOUR, (known_seconds + total) / MOST_OF_AN_HOUR)
    size = hours * HOUR if hours else min(max(total / 64, smallest), largest)
    long = seconds >= size
    shared = round(float(seconds[~long].sum()) / size)
    count = min(max(1, int(long.sum()) + shared), len(seconds))
    shards = np.zeros(len(seconds), np.int64)
    heap = [(0.0, 0, index) for index in range(count)]  # sorted, as a heap may be
    order = pc.sort_indices(
        pa.table({"seconds": seconds, "name": names}),
        [("seconds", "descending"), ("name", "ascending")],
    )
    for row in order.to_numpy():
        load, items, index = heap[0]
        shards[row] = index
        heapreplace(heap, (load + float(seconds[row]), items + 1, index))
    return shards, count


def seconds_of(row: RecordingRow) -> float:
    """Duration by header, else estimated from the size at 128 kbit/s; for balance only, s."""
    seconds = row["header_seconds"]
    return float(seconds) if seconds is not None else row["size"] / BYTES_A_SECOND
