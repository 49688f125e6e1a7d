"""Computes `what-if`: items and hours that other settings would keep, from stored results alone."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING, NotRequired, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from ... import corpus
from ...accounting.ledger import PENDING
from ...base import logs
from ...base.errors import CorruptManifest
from ...corpus import outcome_table
from ...publish import foreseen, leaks, speakers
from ...publish.choosing import clip_choice, components
from ...settings.job import Job
from ...shard_store import manifest, recipe
from ...shard_store.chosen_rules import rules_of

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NOTHING = outcome_table.FIXED.empty_table()


class Clips(TypedDict):
    """A number of utterances, and their hours."""

    items: int
    hours: float


class KeptClips(Clips):
    """The utterances that settings keep, including those without a transcript."""

    not_yet_transcribed: Clips
    unmeasured: int  # recordings that lack a measure
    speakers: NotRequired[int]  # if speakers are linked across recordings
    leaks: NotRequired[leaks.Leaks]  # as in dataset.json, if settings of splits differ


def with_same_texts(now: Job, then: Job) -> Job:
    """`then` with the resampling and the recogniser of `now`, so that stored texts take the place
    of those that `then` would have to recognise."""
    same = {"backend": now.transcribe.backend, "backends": now.transcribe.backends}
    same |= {"hear": now.transcribe.hear}
    transcribe = then.transcribe.model_copy(update=same)
    return replace(then, resample=now.resample, transcribe=transcribe)


def kept(now: Job, then: Job) -> tuple[KeptClips, KeptClips]:
    """Items and hours under both settings, from the table of outcomes if that is possible, else
    from the shards.

    The table is not enough if it is not valid for both settings; if settings of corpus-wide rules
    differ, whose outcomes in the table are fixed; or if limits let clips pass that have a stored
    text which is not in the table, because tighter limits had dropped them.

    The rules are SQL here because a million utterances take 0.3 to 2 CPU s, and deciding them again
    165.
    """
    if _splitting(now) != _splitting(then):
        with logs.silent():  # the run has logged these warnings already
            before = of_shards(now, splitting=True)
        return before, of_shards(then, splitting=True)
    same = corpus.chosen(now) == corpus.chosen(then) and not _by_speaker(now, then)
    if same and outcome_table.where(now) is not None and outcome_table.where(then) is not None:
        try:
            with outcome_table.database(outcome_table.place(now.out)) as database:
                today, after = (_kept(job, database) for job in (now, then))
        except (OSError, CorruptManifest):  # the table is damaged
            return of_shards(now), of_shards(then)
        return today or of_shards(now), after or of_shards(then)
    return of_shards(now), of_shards(then)


def _splitting(job: Job) -> tuple[object, ...]:
    """The settings of splits, by which clips may be dropped."""
    package = job.package
    return package.splits, package.disjoint, package.resplit


def _by_speaker(now: Job, then: Job) -> bool:
    """Whether one of the jobs caps speakers or chooses clips, or the two link speakers
    differently."""
    selects = any(
        job.package.max_hours_per_speaker is not None or clip_choice.restricts(job.package)
        for job in (now, then)
    )
    return selects or recipe.across_recordings(now) != recipe.across_recordings(then)


def _kept(job: Job, outcomes: DuckDBPyConnection) -> KeptClips | None:
    """The same as `kept` for one job, from the table of outcomes; None if a kept clip has a stored
    text that is not in the table."""
    measured = outcome_table.passes(outcome_table.measured_rules(job))
    texts = outcome_table.passes(rules_of("text", job.transcribe.verdicts))
    drawn = f"NOT {outcome_table.left_out_by_weight(job)}" if job.package.weights else "true"
    items, seconds, waiting, later, stored = outcomes.execute(
        "SELECT count(*) FILTER (heard), fsum(seconds) FILTER (heard), count(*) FILTER (NOT heard),"
        f" fsum(seconds) FILTER (NOT heard), count(*) FILTER ({outcome_table.STORED} AND NOT heard)"
        f" FROM outcomes WHERE {measured} AND NOT {outcome_table.BEYOND_LIMITS} AND {drawn} "
        f"AND (NOT heard OR {texts})"
    ).fetchall()[0]
    return None if stored else _counted(items, seconds or 0.0, waiting, later or 0.0)


def of_shards(job: Job, splitting: bool = False) -> KeptClips:
    """The same as `kept` for one job, from the manifests; `splitting`: with `leaks`."""
    with foreseen.version(job, manifest.shards(job.out)) as version:
        parts = version.utterances(["outcome", "seconds"])
        outcomes = pa.concat_tables(parts) if version.batches else NOTHING
        packaged, waiting = (
            outcomes["seconds"].filter(pc.equal(outcomes["outcome"], name)).to_numpy()
            for name in ("packaged", PENDING)
        )
        unmeasured = sum(batch.facts.get("unmeasured", 0) for batch in version.batches)
        sums = len(packaged), math.fsum(packaged), len(waiting), math.fsum(waiting)
        counts = _counted(*sums, unmeasured)
        if recipe.across_recordings(job) is not None:
            spoken = components.speakers_in(version.clips(("dataset", "speaker")))
            counts["speakers"] = len(pc.unique(spoken.drop_null()))
        if splitting:
            clips = version.clips(leaks.columns(version.columns))
            names = clips["split"].unique().to_pylist()
            limits, linked = (job.package.memory, job.scratch), speakers.saved(version.scratch)
            counts["leaks"] = leaks.of_utterances(names, [clips], *limits, linked)
        return counts


def _counted(
    items: int, seconds: float, waiting: int, later: float, unmeasured: int = 0
) -> KeptClips:
    return {
        "items": items + waiting,
        "hours": round((seconds + later) / 3600, 6),
        "not_yet_transcribed": {"items": waiting, "hours": round(later / 3600, 6)},
        "unmeasured": unmeasured,
    }
