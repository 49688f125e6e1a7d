"""Sorts listed rows by shard, on disk if there are many."""

import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa

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
    shard's number. Sorts on disk if there are many rows."""
    count = -(-len(numbers) // BUCKET)
    step = -(-len(found.known.shards) // max(count, 1))
    if count <= 1:
        yield iter([_ordered(list(_numbered(found, results, numbers)))])
        return
    schema = LISTED.append(pa.field("probed", pa.bool_()))
    home = tempfile.TemporaryDirectory(
        prefix="shards-", dir=job.scratch, ignore_cleanup_errors=True
    )
    with home as room:
        with ExitStack() as open_files:
            writers = [
                open_files.enter_context(pa.ipc.new_file(f"{room}/{number}", schema))
                for number in range(count)
            ]
            for rows in _numbered(found, results, numbers):
                bucket = rows[PLACE].to_numpy() // step
                for each in np.unique(bucket):
                    writers[each].write_table(rows.filter(pa.array(bucket == each)))
        yield (_ordered([_all(f"{room}/{number}")]) for number in range(count))


def _numbered(found: Survey, results: Sequence[Path], numbers: Numbers) -> Iterator[pa.Table]:
    """Incoming rows with the number of their shard and whether they were probed, many at a time."""
    begin, held = 0, []
    for table, probed in incoming(found, results):
        mine = numbers[begin : begin + len(table)]
        begin += len(table)
        table = table.drop_columns([PLACE]).append_column(PLACE, pa.array(mine, pa.int32()))
        table = table.append_column("probed", pa.array(np.full(len(table), probed)))
        held.append(table.filter(pa.array(mine >= 0)))
        if sum(map(len, held)) >= BUCKET // 10:
            yield pa.concat_tables(held)
            held = []
    if held:
        yield pa.concat_tables(held)


def _all(path: str) -> pa.Table:
    with pa.OSFile(path, "rb") as file:
        return pa.ipc.open_file(file).read_all()


def _ordered(found: list[pa.Table]) -> pa.Table:
    if not found:
        return LISTED.empty_table()
    return pa.concat_tables(found).sort_by([(PLACE, "ascending"), ("recording", "ascending")])
