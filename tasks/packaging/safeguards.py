"""Refuses a version that would hide a fault: missing sources, failures, nothing left to package."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from heapq import nsmallest
from pathlib import Path

from tasks import plugins
from tasks.accounting import broken, summary
from tasks.accounting.broken import BrokenCount
from tasks.accounting.summary import Totals
from tasks.checkpoints import manifest
from tasks.dataset import versions
from tasks.errors import NothingLeft, RunError, TooManyFailed
from tasks.job import Job
from tasks.packaging.ledger.notes import Portion


def check(
    job: Job, totals: Totals, packaged: int, portions: Sequence[Portion], newest: Path | None
) -> None:
    """RunError if more recordings were removed or failed than the settings allow; NothingLeft if no
    clip is left to package."""
    if newest is not None:
        _check_removed(job, portions, newest)
    check_failed(job, _failed(job, totals, portions))
    if not packaged:
        raise NothingLeft(nothing_left_in_words(job), summary.reasons(totals.sums))


def nothing_left_in_words(job: Job) -> str:
    """Why a version without a clip is refused, and the remedy."""
    return f"nothing is left to package: every recording was dropped or failed; {_remedy(job)}"


def _remedy(job: Job) -> str:
    if job.transcribe.backend.use == "none" and any(
        verdict.use == "empty_text" for verdict in job.transcribe.verdicts
    ):
        return (
            "without a recogniser (transcribe.backend) only a source's own texts pass the verdict "
            "empty_text; set transcribe.verdicts: [] to package clips without text"
        )
    return "see the ledger's reasons, and loosen filter.filters or transcribe.verdicts"


def _check_removed(job: Job, portions: Sequence[Portion], newest: Path) -> None:
    before: int = versions.described(newest)["recordings"]["in"]
    if too_many_removed(job, sum(len(portion.gone) for portion in portions), before):
        names = {name for portion in portions for name in portion.gone}
        names -= _moved(job, names)
        if too_many_removed(job, len(names), before):
            raise RunError(removed_in_words(job, names, before, newest))


def too_many_removed(job: Job, gone: int, before: int) -> bool:
    """Whether so many of the newest version's recordings may not be gone from the sources."""
    return bool(before) and gone / before > job.package.max_removed_fraction


def removed_in_words(job: Job, gone: Collection[str], before: int, newest: Path) -> str:
    """Why a version without the recordings `gone` is refused, and the remedy."""
    limit, verb = job.package.max_removed_fraction, "is" if len(gone) == 1 else "are"
    return (
        f"{len(gone)} of the {before} recordings of {newest.name} {verb} gone from the sources, "
        f"such as {min(gone)}: more than package.max_removed_fraction ({limit:g}) allows; "
        "is a source not mounted? raise the setting if they were removed on purpose"
    )


def _moved(job: Job, gone: set[str]) -> set[str]:
    """Recordings whose content a source still has under another name."""
    present: set[str] = set()
    content_of: dict[str, str] = {}
    for shard in manifest.shards(job.out):
        table = manifest.listed(job.out, shard).select(["recording", "content", "present"])
        for row in table.to_pylist():
            if row["present"] and row["content"]:
                present.add(row["content"])
            elif row["recording"] in gone:
                content_of[row["recording"]] = row["content"]
    return {name for name, content in content_of.items() if content in present}


def exempt(job: Job) -> list[str]:
    """Datasets in which any number of recordings may be broken."""
    return [d.name for d in plugins.datasets(job.sources) if d.settings.expect_broken]


def _failed(job: Job, totals: Totals, portions: Sequence[Portion]) -> BrokenCount:
    free = exempt(job)
    strict = [counts for name, counts in totals.recordings.items() if name not in free]
    count, failed = (sum(column) for column in zip((0, 0), *strict, strict=True))
    named = (
        each
        for portion in portions
        for dataset, some in portion.broken.items()
        for each in some
        if dataset not in free
    )
    return BrokenCount(count, failed, nsmallest(broken.FIRST, named))


def check_failed(job: Job, found: BrokenCount) -> None:
    """TooManyFailed; the listing may show it before any audio is processed."""
    limit = job.package.max_failed_fraction
    if found.recordings and found.failed / found.recordings > limit:
        more = found.failed - len(found.first)
        raise TooManyFailed(
            f"{found.failed} of {found.recordings} recordings failed, more than "
            f"package.max_failed_fraction ({limit:g}) allows; mend or remove them, raise the "
            "setting, or mark the source expect_broken: true",
            [*map(str, found.first), *([f"and {more} more"] if more > 0 else [])],
        )
