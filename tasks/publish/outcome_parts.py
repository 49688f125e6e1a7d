"""Updates the table of outcomes, which `what-if` and the report query, when a version is
published."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path

from .. import storage
from ..corpus import outcome_table, rejections
from ..settings.job import Job
from ..storage import tables
from .choosing import corpus_rejections
from .outcomes import shard_batches

#: Name of a part: its shard batch's, and a hash of the outcomes.
PART = re.compile(rf"{shard_batches.KEY_NAME.pattern}-[0-9a-f]{{16}}")


def note(job: Job, scratch: Path, manifests: str | None = None) -> None:
    """Make the table's parts those of the run's shard batches; parts whose names exist are kept.
    `manifests`: the hash of the names of all checkpoints; None: list them."""
    home = outcome_table.place(job.out)
    outcome_table.unseal(job.out)
    existing = {path.name for path in storage.names(home, ".parquet") if PART.fullmatch(path.stem)}
    names = []
    for batch, rejected in corpus_rejections.by_batch(scratch, shard_batches.listed(scratch)):
        decided = batch.outcomes(("outcome", "stage", "reason"))
        state = [shard_batches.arrow_bytes(decided)]
        state += [] if rejected is None else [repr(rejected.to_pylist()).encode()]
        name = f"{batch.home.name}-{hashlib.sha256(b''.join(state)).hexdigest()[:16]}"
        names.append(f"{name}.parquet")
        if names[-1] not in existing:
            table = batch.utterances()
            if rejected is not None:
                table = rejections.entered(table, "id", rejected)
            data = tables.parquet(table, compression="zstd", write_statistics=False)
            storage.write_atomic(home / names[-1], data)
    for name in existing.difference(names):
        storage.remove(home / name)
    outcome_table.seal(job, names, manifests)
