"""Distributes recordings over shards of about equal duration."""

from __future__ import annotations

from heapq import heapify, heapreplace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import plugins
from ...base.arrays import Float64s, Int64s
from ...base.schema import RecordingRow
from ...settings.job import Job
from .known_recordings import BYTES_A_SECOND

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
    heap = [(0.0, 0, index) for index in range(count)]
    heapify(heap)
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
