"""Chooses the shard of each recording: the one that has it or its bytes, else a new one."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.checkpoints import manifest
from tasks.job import Job
from tasks.listing import fingerprints, known, survey
from tasks.listing.balance import Numbers, assigned, least
from tasks.listing.known import KnownRecordings
from tasks.listing.parts import PLACE
from tasks.listing.survey import Survey
from tasks.storage import long_columns, tables


@dataclass(slots=True)
class _News:
    """New recordings, as columns."""

    at: Numbers  # their places among all rows
    seconds: NDArray[np.float64]
    contents: NDArray[np.bytes_]  # zero where the bytes could not be read
    names: pa.ChunkedArray


def incoming(found: Survey, results: Sequence[Path]) -> Iterator[tuple[pa.Table, bool]]:
    """Tables of all rows for shards, in a stable order; with each, whether it was probed now."""
    for path in results:
        yield tables.read(path), True
    for table in found.told.tables():
        yield table, False


def homes_of(job: Job, found: Survey, results: Sequence[Path], gone: NDArray[np.bytes_]) -> Numbers:
    """The number of the shard for each incoming row, -1 for none; adds new shards to the known
    ones."""
    homes: list[NDArray[Any]] = []
    at: list[Numbers] = []
    lengths: list[NDArray[np.float64]] = []
    contents: list[NDArray[np.bytes_]] = []
    names: list[pa.ChunkedArray] = []
    begin = 0
    for table, probed in incoming(found, results):
        place = table[PLACE].to_numpy().astype(np.int64)
        if probed:
            moving = pc.equal(table["error_code"], "changed").fill_null(False).to_numpy()
            for row in (
                table.filter(pa.array(moving)).select(["dataset", "source_path"]).to_pylist()
            ):
                found.left.append(survey.still_written(row))
            fresh = (place < 0) & ~moving
            some = table.filter(pa.array(fresh))
            sound = pc.if_else(pc.is_null(some["error_code"]), some["content"], None)
            at.append(begin + np.flatnonzero(fresh))
            lengths.append(known.seconds_of(some))
            contents.append(fingerprints.contents(sound.to_pylist()))
            names.append(some["recording"])
        homes.append(place)
        begin += len(table)
    numbers = np.concatenate(homes) if homes else np.zeros(0, np.int64)
    if at:
        whole = pa.chunked_array([chunk for name in names for chunk in name.chunks], pa.string())
        news = _News(np.concatenate(at), np.concatenate(lengths), np.concatenate(contents), whole)
        home = _known_bytes(job.out, found.known, news.contents, gone)
        _place(job, found.known, news, home, numbers)
    return numbers


def _place(job: Job, had: KnownRecordings, news: _News, home: Numbers, numbers: Numbers) -> None:
    """Assign new recordings to the shards that have their bytes, and the others to new shards."""
    numbers[news.at] = home
    rest = np.flatnonzero(home < 0)
    first = max((int(name.split("-")[1]) for name in had.shards), default=-1) + 1
    names = long_columns.take(pa.table([news.names], ["recording"]), rest)["recording"]
    there = math.fsum(had.seconds)
    groups, count = assigned(news.seconds[rest], names, job.shard.hours, least(job), there)
    numbers[news.at[rest]] = len(had.shards) + groups
    for number in range(first, first + count):
        had.shards.append(f"shard-{number:06d}")
        had.parts.append(("", ""))
        had.seconds.append(0.0)
        had.counts.append({})


def _known_bytes(
    out: Path, had: KnownRecordings, wanted: NDArray[np.bytes_], left: NDArray[np.bytes_]
) -> Numbers:
    """For each content in `wanted`, the number of the shard with a recording of the same bytes that
    is no longer in the sources (a renamed file); -1: none. `left`: keys of recordings that this
    listing found missing."""
    home = np.full(len(wanted), -1, np.int64)
    columns = had.columns
    away = (columns.flags & known.PRESENT == 0) | (fingerprints.index_in(left, columns.keys) >= 0)
    found, where = [], []
    for number in np.unique(columns.shard[away]):
        some = manifest.read(out, "shard", had.shards[number])
        if not some:
            continue
        table = some[-1].table
        names = fingerprints.keys(table["recording"].to_pylist())
        there = table["present"].to_numpy() & (fingerprints.index_in(left, names) < 0)
        sound = pc.is_null(table["error_code"]).to_numpy()
        held = table.filter(pa.array(~there & sound))["content"].drop_null().to_pylist()
        found.append(fingerprints.contents(held))
        where.append(np.full(len(held), number, np.int64))
    if not found:
        return home
    keys, shards = np.concatenate(found), np.concatenate(where)
    keys, first = np.unique(keys, return_index=True)  # the first shard that knows it
    at = fingerprints.index_in(keys, wanted)
    at[wanted == b""] = -1
    home[at >= 0] = shards[first][at[at >= 0]]
    return home
