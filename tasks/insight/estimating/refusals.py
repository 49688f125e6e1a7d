"""Predicts that a run will refuse to publish: too many recordings are known to be broken, or have
left their sources, or no clip will have a text."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import compress
from pathlib import Path

import numpy as np
import pyarrow as pa

from ... import plugins
from ...accounting import summary
from ...accounting.broken import Broken
from ...base.errors import TooManyFailed
from ...publish import safeguards
from ...settings.job import Job
from ...settings.package import keeps_speakers_apart
from ...shard_store import decision_log
from ...stages import shard
from ...stages.listing import entries
from ...stages.listing.pending_listing import AsListed
from ...stages.listing.survey import Survey
from .changes import Causes


def of_failures(
    job: Job,
    surveyed: Survey,
    listed: AsListed,
    newest: Path | None,
    unusable: Sequence[tuple[str, Broken]],
) -> str | None:
    """The message with which the run will refuse because of failed recordings; None if it will not,
    or if that is uncertain because known recordings have changed, left their sources or returned.

    New recordings count as good, except `unusable` ones (dataset, failure). `newest`: the newest
    version.
    """
    had, package = surveyed.known, job.package
    if listed.renewed or len(surveyed.gone) or listed.absent_count != (~had.present).sum():
        return None
    exempt = safeguards.exempt(job)
    strict = had.outside(exempt)
    fresh = sum(row["dataset"] not in exempt for row in listed.fresh)
    lost = [broken for dataset, broken in unusable if dataset not in exempt]
    counts = shard.broken_of(job, had, strict, package.max_failed_fraction)
    counts.recordings, counts.failed = counts.recordings + fresh, counts.failed + len(lost)
    counts.first += lost
    try:
        safeguards.check_failed(job, counts)
        if newest is not None and counts.failed >= safeguards.FEW:
            for names in summary.live_recordings(newest):
                strict &= ~np.isin(had.columns.keys, entries.keys(names.to_pylist()))
            new = shard.broken_of(job, had, strict, package.max_new_failed_fraction)
            count, failed = new.recordings + fresh, new.failed + len(lost)
            safeguards.check_new(job, count, failed, [*new.first, *lost])
    except TooManyFailed as error:
        return str(error)
    return None


def of_texts(job: Job, surveyed: Survey) -> tuple[str | None, list[str]]:
    """If it is certain that no clip will have a text, the sentence with which the run will refuse
    because of that, or one for each format whose trainer needs a text."""
    sentences = list[str]()
    if any(recogniser.use != "none" for recogniser in job.transcribe.recognisers):
        return None, []
    if not surveyed.sources or any(source.texts for source in surveyed.sources):
        return None, []
    if decision_log.by_utterance(job):  # people may have written texts or kept clips without one
        return None, []
    if any(verdict.use == "empty_text" for verdict in job.transcribe.verdicts):
        return safeguards.nothing_left_in_words(job, ["transcribe.empty_text"]), []
    for plugin in job.package.formats:
        module, settings = plugins.FORMATS.resolve(plugin)
        reader = module.reader(settings)
        if reader and any(bound.needs_text and not bound.setting for bound in reader.bounds):
            sentences.append(
                f"{plugin.use}: no clip will have a text, which {reader.reader} needs, because the "
                "sources give none; choose a recogniser with transcribe.backend"
            )
    return None, sentences


def of_voices(job: Job, causes: Causes, newest: Path | None) -> Iterator[str]:
    """A sentence if the run finds speakers whom the newest version's splits do not know, because of
    whom it may refuse."""
    package = job.package
    apart = keeps_speakers_apart(package.splits, package.disjoint) and not package.resplit
    if job.speakers.use == "none":
        return
    if newest and apart and any(name.startswith("speakers") for name in causes.measures):
        yield (
            f"{newest.name}'s splits were drawn without the speakers that this run finds: clips of "
            "a speaker in two splits are dropped, and too many refuse the version; with "
            "package.resplit=true, all splits are drawn again"
        )


def of_removals(job: Job, listed: AsListed, newest: Path | None) -> str | None:
    """The message with which the run will refuse because of removed recordings; None if it will
    not. Call it after `listed.rows` for all shards, which finds the recordings that moved."""
    if newest is None or not listed.absent_count:
        return None
    gone = set[str]()
    for names in summary.live_recordings(newest):
        gone.update(names.filter(pa.array(listed.absent(names.to_pylist()))).to_pylist())
    gone -= {*listed.moved.values()}
    if not gone:
        return None
    unreadable = {
        row["recording"] for row in listed.fresh if row["error_code"] in safeguards.UNLISTED
    }
    faulty = [*safeguards.unreadable_in(listed.faulty())]
    unreadable.update(compress(faulty, ~listed.absent(faulty)))
    if safeguards.refusal_of_removals(job, gone, unreadable, newest) is None:
        return None
    gone -= listed.same_content(gone)
    return safeguards.refusal_of_removals(job, gone, unreadable, newest)
