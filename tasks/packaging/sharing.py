"""What all verdicts leave is shared out: by dataset weights first, then among the splits."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from tasks import storage
from tasks.checkpoints.utterance import Outcome
from tasks.corpuswide import Verdicts
from tasks.job import Job
from tasks.packaging import split_lists, splits, weights
from tasks.settings.portions import REST
from tasks.storage import tables

log = logging.getLogger("uttermill")


class Shared(NamedTuple):
    rows: pa.Table  # those that are packaged, with their `split`
    verdicts: Verdicts  # on the others
    table: pa.Table | None  # `splits.parquet`, where splits are asked for
    lists: dict[str, Any]


def check(job: Job) -> None:
    """ConfigError for what can be known before anything is computed."""
    weights.check(job)
    split_lists.read(job.package)


def share(job: Job, rows: pa.Table, newest: Path | None) -> Shared:
    """Share out `rows` (columns of `utterances.parquet`), in the order of ids."""
    weights.check(job)
    verdicts: Verdicts = {}
    if job.package.weights:
        draw, weight = weights.chances(job.package, rows)
        out = draw >= weight
        for row, key in zip(np.flatnonzero(out).tolist(), _ids(rows, out), strict=True):
            verdicts[key] = Outcome(
                "dropped", "package", "weight", float(draw[row]), float(weight[row])
            )
        rows = rows.filter(pa.array(~out))
    if not job.package.splits:
        _said_to_be_train(newest)
        return Shared(rows, verdicts, None, {})
    before = splits.known(None if job.package.resplit else newest)
    sides = splits.assign(job.package, rows, before)
    for note in sides.notes:
        log.warning("%s", note)
    out = sides.split < 0
    for row, key in zip(np.flatnonzero(out).tolist(), _ids(rows, out), strict=True):
        verdicts[key] = Outcome("dropped", "package", "split_conflict", detail=sides.joins[row])
    rows = rows.filter(pa.array(~out))
    found = pa.array(sides.names).take(pa.array(sides.split[~out]))
    rows = rows.set_column(rows.column_names.index("split"), rows.schema.field("split"), found)
    return Shared(rows, verdicts, sides.table, sides.lists)


def _ids(rows: pa.Table, which: Any) -> list[str]:
    ids: list[str] = rows["id"].filter(pa.array(which)).to_pylist()
    return ids


def _said_to_be_train(newest: Path | None) -> None:
    if newest is None or not storage.exists(newest / splits.FILE):
        return
    held = tables.read(newest / "utterances.parquet", columns=["split"])["split"].unique()
    others = sorted({*held.to_pylist()} - {REST})
    if others:
        log.warning(
            "package.splits is not set: what %s has as %s is %s from now on",
            newest.name, " and ".join(others), REST,
        )  # fmt: skip
