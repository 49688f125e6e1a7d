"""Sorts listed rows by shard, on disk if there are many."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

from tasks.corpuswide.ordering import Sorted
from tasks.job import Job
from tasks.listing.balance import Numbers
from tasks.listing.homes import incoming
from tasks.listing.row_files import LISTED, PLACE
from tasks.listing.survey import Survey

BUCKET = 50_000  # rows that are brought into the order of their shards at once


@contextmanager
def in_shards(
    job: Job, found: Survey, results: Sequence[Path], numbers: Numbers
) -> Iterator[Iterator[pa.Table]]:
    """Incoming rows sorted by shard and name, some shards at a time; the column PLACE is the
    shard's number, and `probed` tells whether a row was probed."""
    count = -(-len(numbers) // BUCKET)
    shards = len(found.known.shards)
    step = max(-(-shards // max(count, 1)), 1)
    bounds = np.arange(step, shards, step) if count > 1 else np.zeros(0)
    schema = LISTED.append(pa.field("probed", pa.bool_()))
    with Sorted(schema, (PLACE, "recording"), bounds, BUCKET // 10, job.scratch) as rows:
        begin = 0
        for table, probed in incoming(found, results):
            mine = numbers[begin : begin + len(table)]
            begin += len(table)
            table = table.drop_columns([PLACE]).append_column(PLACE, pa.array(mine, pa.int32()))
            table = table.append_column("probed", pa.array(np.full(len(table), probed)))
            rows.add(table.filter(pa.array(mine >= 0)))
        yield rows.tables()
