"""Foresees that a run will refuse to publish, since too many recordings have left their sources."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tasks.accounting.summary import REMOVED
from tasks.dataset import versions
from tasks.job import Job
from tasks.listing.as_listed import AsListed
from tasks.packaging import safeguards
from tasks.schema import LEDGER_FILE
from tasks.storage import tables


def refusal(job: Job, listed: AsListed, newest: Path | None) -> str | None:
    """The sentence with which the run will refuse, with its remedy; None if it will not. Ask when
    `listed` has been asked for the rows of its shards, since these tell which recordings moved."""
    before = versions.described(newest)["recordings"]["in"] if newest else 0
    if newest is None or not safeguards.too_many_removed(job, listed.absent_count, before):
        return None
    gone = _published(newest, listed.absent() - {*listed.moved.values()})
    if not safeguards.too_many_removed(job, len(gone), before):
        return None
    return safeguards.removed_in_words(job, gone, before, newest)


def _published(newest: Path, names: set[str]) -> set[str]:
    """Which of these recordings the newest version still has in its sources."""
    wanted, found = pa.array(sorted(names), pa.string()), set[str]()
    for rows in tables.row_groups(newest / LEDGER_FILE, ["recording", "reason"]):
        there = rows.filter(pc.not_equal(rows["reason"], REMOVED))["recording"]
        found |= {*pc.unique(there.filter(pc.is_in(there, wanted))).to_pylist()}
    return found
