"""Which clips of the newest version a run writes again: those in tars whose content changes."""

from __future__ import annotations

from collections.abc import Mapping, Set
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import recipe
from tasks.accounting import summary
from tasks.dataset import versions
from tasks.dataset.proved import Proved
from tasks.job import Job
from tasks.packaging.layout import LAYOUT_SETTINGS
from tasks.storage import tables

COLUMNS = ["id", "shard", "recording", "num_samples", "sample_rate"]


class Rewriting(NamedTuple):
    """`clips` of the newest version, those of them `staying`, and new ones that are known with
    them; `written` of these, and their seconds."""

    clips: int
    staying: int
    written: int
    seconds: float


def of_version(
    job: Job, before: Job | None, stay: Mapping[str, float], walked: Set[str], gone: Set[str]
) -> Rewriting:
    """`stay`: seconds of utterances that are packaged as they are, by id, of the recordings
    `walked`; clips of other recordings stay too, unless those are `gone` or changed."""
    newest = versions.newest(job.out)
    if newest is None:
        return Rewriting(0, len(stay), len(stay), sum(stay.values()))
    table = tables.read(newest / "utterances.parquet", columns=COLUMNS, opened=Proved(newest))
    ids = table["id"]
    of_walked = pc.is_in(table["recording"], pa.array([*walked, *gone], pa.string()))
    stays = pc.or_(pc.invert(of_walked), pc.is_in(ids, pa.array([*stay], pa.string())))
    staying = stays.to_numpy(zero_copy_only=False)
    new = stay.keys() - set(ids.to_pylist())
    if before is None or _writes_all(job, before):
        written = staying
    else:
        tars = table["shard"].combine_chunks().dictionary_encode().indices.to_numpy()
        touched = np.unique(tars[~staying])
        written = staying & np.isin(tars, touched)
    seconds = float(summary.seconds_of(table)[written].sum()) + sum(stay[name] for name in new)
    counts = int(staying.sum()) + len(new), int(written.sum()) + len(new)
    return Rewriting(table.num_rows, *counts, seconds)


def _writes_all(job: Job, before: Job) -> bool:
    """Whether formats, or the layout of the tars, are other ones."""
    now, then = (recipe.settings_of(each)["package"] for each in (job, before))
    full = job.package.rebalance == "full"
    names = ("formats", *LAYOUT_SETTINGS)
    return full or any(now[name] != then[name] for name in names)
