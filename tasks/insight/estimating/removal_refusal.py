"""Foresees that a run will refuse to publish, since too many recordings have left their sources."""

from __future__ import annotations

from pathlib import Path

from tasks.accounting import summary
from tasks.publish import safeguards
from tasks.settings.job import Job
from tasks.stages.listing.pending_listing import AsListed


def refusal(job: Job, listed: AsListed, newest: Path | None) -> str | None:
    """The sentence with which the run will refuse, with its remedy; None if it will not. Ask when
    `listed` has been asked for the rows of its shards, since these tell which recordings moved."""
    if newest is None or not listed.absent_count:
        return None
    names_absent = listed.absent()
    absent, gone = names_absent - {*listed.moved.values()}, set[str]()
    for names in summary.live_recordings(newest):
        gone |= absent.intersection(names.to_pylist())
    if not gone:
        return None
    unreadable = {
        row["recording"] for row in listed.fresh if row["error_code"] in safeguards.UNLISTED
    }
    unreadable |= safeguards.unreadable_in(listed.faulty()) - names_absent
    if safeguards.refusal_of_removals(job, gone, unreadable, newest) is None:
        return None
    gone -= listed.same_content(gone)
    return safeguards.refusal_of_removals(job, gone, unreadable, newest)
