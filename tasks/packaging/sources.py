"""Finds the PCM of clips whose rows came from the previous version.

A tar that stays needs no PCM, so this is looked up only if its file turns out to be damaged.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import storage
from tasks.checkpoints.manifest import Row
from tasks.errors import RunError
from tasks.job import Job
from tasks.packaging import decided, plan


def located(job: Job, rows: Sequence[Row]) -> list[Row]:
    """The rows with the columns `plan.sources_of`; rows that lack them are looked up in the
    groups."""
    lacking = {row["id"] for row in rows if row["work_shard"] is None}
    if not lacking:
        return list(rows)
    found: dict[str, Row] = {}
    names = [name for name, _ in plan.sources_of(job)]
    home = decided.home(job.out)
    for name in storage.of(job.out).folders(home):
        table = decided.ShardGroup(home / name, ()).table("rows.arrow", ["id", *names])
        hit = pc.is_in(table["id"], pa.array(sorted(lacking - found.keys()), pa.string()))
        if np.any(hit.to_numpy()):
            found |= {row.pop("id"): row for row in table.filter(hit).to_pylist()}
    if left := sorted(lacking - found.keys()):
        raise RunError(f"the samples of {left[0]} are in no decided shard; run it again")
    return [{**row, **found.get(row["id"], {})} for row in rows]
