"""Foresees that a run will refuse to go on, since too many recordings are known to be broken."""

from __future__ import annotations

from tasks import plugins, shard
from tasks.base.errors import TooManyFailed
from tasks.publish import safeguards
from tasks.settings.job import Job
from tasks.stages.listing.pending_listing import AsListed
from tasks.stages.listing.survey import Survey


def refusal(job: Job, surveyed: Survey, listed: AsListed) -> str | None:
    """The sentence with which the run will refuse, with its remedy, as far as it is certain: None
    where known recordings have changed or are gone, and new ones count as good."""
    if listed.renewed or listed.absent_count:
        return None
    exempt = safeguards.exempt(job)
    strict = {dataset.name for dataset in plugins.datasets(job.sources)} - {*exempt}
    counts = shard.broken_of(job, surveyed, exempt)
    counts.recordings += sum(row["dataset"] in strict for row in listed.fresh)
    try:
        safeguards.check_failed(job, counts)
    except TooManyFailed as error:
        return str(error)
    return None
