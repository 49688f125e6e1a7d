"""Which of the clips that passed all verdicts are packaged, and in which split.

First the dataset weights, then the hours per speaker, then the split assignment.
"""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks import storage
from tasks.checkpoints.utterance import Outcome
from tasks.corpuswide import Verdicts
from tasks.dataset import versions
from tasks.job import Job
from tasks.packaging import published, seeded, speaker_hours, splits, weights
from tasks.packaging.components import Bools
from tasks.settings import split_lists
from tasks.settings.portions import REST

log = logging.getLogger("uttermill")


class Selection(NamedTuple):
    rows: pa.Table  # to package, with their `split`
    verdicts: Verdicts  # on the others
    splits: pa.Table | None  # `splits.parquet`, if splits are asked for
    lists: dict[str, Any]  # `split_lists` of dataset.json


def check(job: Job) -> None:
    """ConfigError for what is wrong before anything is computed."""
    weights.check(job)
    split_lists.read(job.package)


def selects(job: Job) -> bool:
    """Whether anything is selected among the clips that passed all verdicts."""
    package = job.package
    return bool(package.splits or package.weights) or package.max_hours_per_speaker is not None


def select(job: Job, rows: pa.Table, newest: Path | None) -> Selection:
    """Select from `rows` (columns of `utterances.parquet`, in the order of ids)."""
    weights.check(job)
    verdicts: Verdicts = {}
    if job.package.weights:
        draw, weight = weights.draws(job.package, rows)
        out = draw >= weight
        for row, key in zip(np.flatnonzero(out).tolist(), _ids(rows, out), strict=True):
            verdicts[key] = Outcome(
                "dropped", "package", "weight", float(draw[row]), float(weight[row])
            )
        rows = rows.filter(pa.array(~out))
    rows, over = within_hours(job, rows, newest)
    for each in over:
        no = each["speaker_hours"], job.package.max_hours_per_speaker
        verdicts[each["id"]] = Outcome("dropped", "package", "speaker_hours", *no)
    if not job.package.splits:
        warn_of_lost_splits(newest)
        return Selection(rows, verdicts, None, {})
    before = splits.published(None if job.package.resplit else newest)
    assigned = splits.assign(job.package, rows, before)
    for note in assigned.notes:
        log.warning("%s", note)
    out = assigned.split < 0
    for row, key in zip(np.flatnonzero(out).tolist(), _ids(rows, out), strict=True):
        verdicts[key] = Outcome("dropped", "package", "split_conflict", detail=assigned.joins[row])
    rows = rows.filter(pa.array(~out))
    found = pa.array(assigned.names).take(pa.array(assigned.split[~out]))
    rows = rows.set_column(rows.column_names.index("split"), rows.schema.field("split"), found)
    return Selection(rows, verdicts, assigned.table, assigned.lists)


def within_hours(
    job: Job, rows: pa.Table, newest: Path | None
) -> tuple[pa.Table, list[dict[str, Any]]]:
    """The rows that fit into the most hours of their speakers, and the others with the speaker's
    hours up to their ends, `speaker_hours`."""
    most = job.package.max_hours_per_speaker
    if most is None:
        return rows, []
    there = published_among(job, rows["id"], newest)
    out, hours = speaker_hours.over(rows, there, most, job.package.seed)
    over = rows.append_column("speaker_hours", pa.array(hours)).filter(pa.array(out))
    return rows.filter(pa.array(~out)), over.to_pylist()


class Known:
    """The utterances of the newest version, by the hashes of their ids."""

    def __init__(self, job: Job, newest: Path | None) -> None:
        self._high = self._low = np.zeros(0, np.uint64)
        if newest is not None:
            described = versions.described(newest)
            there = published.load(job.out, newest, described, job.package.seed)
            order = np.argsort(there.high)
            self._high, self._low = there.high[order], there.low[order]

    def among(self, keys: NDArray[np.uint64]) -> Bools:
        """Which of these hashes are (`seeded.keys`); bool [keys]."""
        found: Bools = seeded.places_of(keys[:, 0], keys[:, 1], self._high, self._low) >= 0
        return found


def published_among(job: Job, ids: pa.ChunkedArray, newest: Path | None) -> Bools:
    """Whether each utterance is in the newest version."""
    if newest is None:
        return np.zeros(len(ids), bool)
    return Known(job, newest).among(seeded.keys(str(job.package.seed), ids.to_pylist()))


def _ids(rows: pa.Table, which: Bools) -> list[str]:
    ids: list[str] = rows["id"].filter(pa.array(which)).to_pylist()
    return ids


def warn_of_lost_splits(newest: Path | None) -> None:
    """Without `package.splits`, everything becomes train."""
    if newest is None or not storage.exists(newest / splits.FILE):
        return
    others = sorted(versions.described(newest)["splits"].keys() - {REST})
    if others:
        log.warning(
            "package.splits is not set: what %s has as %s becomes %s",
            newest.name,
            " and ".join(others),
            REST,
        )
