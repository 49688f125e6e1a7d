"""Keeps the table of decisions, which `what-if` and the report ask, in step with the version."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Collection
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tasks import storage
from tasks.corpuswide import decisions, outcomes
from tasks.job import Job
from tasks.packaging import decided, whole
from tasks.packaging.decided import Group
from tasks.storage import tables

NAME = "decisions.parquet"


def note(job: Job, scratch: Path, judged: Collection[int]) -> None:
    """Make the table that of the run's groups; `judged` are the numbers of those on which there
    are corpus-wide verdicts. A part whose name is there already stays."""
    home, groups = decisions.place(job.out), decided.listed(job, scratch)
    found = None
    if judged:
        with tables.arrow(scratch / whole.JUDGED) as file:
            found = pa.ipc.open_file(file).read_all()
    wanted: dict[str, tuple[Group, pa.Table | None]] = {}
    for number, group in enumerate(groups):
        own = None
        name = group.home.name
        if found is not None and number in set(judged):
            own = found.filter(pc.equal(found["group"], number)).drop_columns(["group"])
            told = repr(own.to_pylist()).encode()
            name = f"{name}-{hashlib.sha256(told).hexdigest()[:16]}"
        wanted[f"{name}.parquet"] = group, own
    decisions.unseal(job.out)
    if storage.exists(home):  # what an older release left: one file
        storage.remove(home)
    for path in storage.names(home, ".parquet"):
        if path.name in wanted:
            del wanted[path.name]
        else:
            storage.remove(path)
    kept = [path.name for path in storage.names(home, ".parquet")]
    for name, (group, own) in wanted.items():
        data = group.data(NAME)
        if own is not None:
            target = io.BytesIO()
            table = pq.read_table(pa.BufferReader(data))
            pq.write_table(outcomes.entered(table, "id", own), target, compression="zstd")
            data = target.getvalue()
        storage.write_atomic(home / name, data)
    decisions.seal(job, [*kept, *wanted])
