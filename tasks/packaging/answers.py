"""Keeps the table of decisions, which `what-if` and the report ask, in step with the version."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks import storage
from tasks.corpuswide import decisions, outcomes
from tasks.job import Job
from tasks.packaging import decided, judgements
from tasks.packaging.decided import Group
from tasks.storage import tables

NAME = "decisions.parquet"


def note(job: Job, scratch: Path, judged: Sequence[int], manifests: str | None = None) -> None:
    """Bring the table up to the run's groups; `judged`: numbers of those with corpus-wide verdicts.
    Parts whose names exist already stay. `manifests`: the hash of the names of all checkpoints, if
    the run has listed them."""
    home, groups = decisions.place(job.out), decided.listed(job, scratch)
    at = {number: place for place, number in enumerate(judged)}
    with tables.arrow(scratch / judgements.FILE) as file:
        verdicts = pa.ipc.open_file(file)
        wanted: dict[str, tuple[Group, int | None]] = {}
        for number, group in enumerate(groups):
            name = group.home.name
            if number in at:
                told = repr(_of_group(verdicts, at[number]).to_pylist()).encode()
                name = f"{name}-{hashlib.sha256(told).hexdigest()[:16]}"
            wanted[f"{name}.parquet"] = group, at.get(number)
        decisions.unseal(job.out)
        if storage.exists(home):  # what an older release left: one file
            storage.remove(home)
        for path in storage.names(home, ".parquet"):
            if path.name in wanted:
                del wanted[path.name]
            else:
                storage.remove(path)
        kept = [path.name for path in storage.names(home, ".parquet")]
        for name, (group, place) in wanted.items():
            data = group.data(NAME)
            if place is not None:
                target = io.BytesIO()
                table = pq.read_table(pa.BufferReader(data))
                own = _of_group(verdicts, place)
                pq.write_table(outcomes.entered(table, "id", own), target, compression="zstd")
                data = target.getvalue()
            storage.write_atomic(home / name, data)
    decisions.seal(job, [*kept, *wanted], manifests)


def _of_group(verdicts: pa.ipc.RecordBatchFileReader, place: int) -> pa.Table:
    return pa.Table.from_batches([verdicts.get_batch(place)]).drop_columns(["group"])
