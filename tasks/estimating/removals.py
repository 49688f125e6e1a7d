"""Foresees that a run will refuse to publish, since too many recordings have left their sources."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks.accounting import summary
from tasks.dataset import versions
from tasks.job import Job
from tasks.listing.as_listed import AsListed
from tasks.packaging import safeguards


def refusal(job: Job, listed: AsListed, newest: Path | None) -> str | None:
    """The sentence with which the run will refuse, with its remedy; None if it will not. Ask when
    `listed` has been asked for the rows of its shards, since these tell which recordings moved."""
    before = versions.described(newest)["recordings"]["in"] if newest else 0
    if newest is None or not safeguards.too_many_removed(job, listed.absent_count, before):
        return None
    wanted = pa.array(sorted(listed.absent() - {*listed.moved.values()}), pa.string())
    gone = set[str]()
    for names in summary.live_recordings(newest):
        gone |= {*names.filter(pc.is_in(names, wanted)).to_pylist()}
    if not safeguards.too_many_removed(job, len(gone), before):
        return None
    return safeguards.removed_in_words(job, gone, before, newest)
