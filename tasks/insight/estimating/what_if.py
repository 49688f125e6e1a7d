"""The numbers of `what-if`: items and hours under other settings, from stored measures alone."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import NotRequired, TypedDict

import pyarrow as pa
import pyarrow.compute as pc

from tasks import corpus
from tasks.accounting.ledger import PENDING
from tasks.corpus import outcome_table
from tasks.publish import foreseen, leaks
from tasks.publish.choosing import clip_choice, components, weights
from tasks.settings.job import Job
from tasks.shard_store import manifest, recipe
from tasks.shard_store.chosen_rules import rules_of
from tasks.storage import tables


class Clips(TypedDict):
    """Utterances, and their hours."""

    items: int
    hours: float


class KeptClips(Clips):
    """What settings keep, those that lack a text included; `unmeasured` recordings lack a
    measure."""

    not_yet_transcribed: Clips
    unmeasured: int
    speakers: NotRequired[int]  # if they are linked over recordings
    leaks: NotRequired[leaks.Leaks]  # if settings of splits differ, as dataset.json has them


def with_same_texts(now: Job, then: Job) -> Job:
    """`then` with the resampling and recogniser of `now`: if it would transcribe again, the
    existing texts stand in for the new ones."""
    same = {"backend": now.transcribe.backend, "backends": now.transcribe.backends}
    same |= {"hear": now.transcribe.hear}
    transcribe = then.transcribe.model_copy(update=same)
    return replace(then, resample=now.resample, transcribe=transcribe)


def kept(now: Job, then: Job) -> tuple[KeptClips, KeptClips]:
    """Items and hours under both settings: from the table of outcomes if it is valid for both,
    else shard by shard. The table keeps the outcomes by the whole corpus as they were, so other
    settings of those are answered from the shards. So are limits that let in clips whose texts are
    stored, but not in the table: limits that were tightened since dropped them."""
    if _splitting(now) != _splitting(then):
        return of_shards(now, splitting=True), of_shards(then, splitting=True)
    same = corpus.chosen(now) == corpus.chosen(then) and not _by_speaker(now, then)
    if same and outcome_table.where(now) is not None and outcome_table.where(then) is not None:
        columns = {"outcome", "stage", "reason", "heard", "seconds", "dataset"}
        columns |= {outcome_table.SPARED, outcome_table.STORED}
        columns |= outcome_table.columns_asked(now) | outcome_table.columns_asked(then)
        columns |= {"id"} if now.package.weights or then.package.weights else set()
        try:
            table = tables.row_groups(outcome_table.place(now.out), sorted(columns))
            parts = [(_of_part(now, part), _of_part(then, part)) for part in table]
        except (OSError, pa.ArrowException):  # damaged: the manifests tell
            return of_shards(now), of_shards(then)
        before, after = ([sums[side] for sums in parts] for side in (0, 1))
        return _summed(now, before), _summed(then, after)
    return of_shards(now), of_shards(then)


def _splitting(job: Job) -> tuple[object, ...]:
    """Settings by which clips are left out for the sake of splits."""
    package = job.package
    return package.splits, package.disjoint, package.resplit


def _by_speaker(now: Job, then: Job) -> bool:
    """Whether a job depends on speakers or chooses clips, or the two link speakers differently."""
    capped = any(
        job.package.max_hours_per_speaker is not None or clip_choice.asked(job.package)
        for job in (now, then)
    )
    return capped or recipe.across_recordings(now) != recipe.across_recordings(then)


#: Items and seconds kept; those that lack a text in the table; how many of these have one stored.
Sums = tuple[int, float, int, float, int]


def _summed(job: Job, parts: Sequence[Sums]) -> KeptClips:
    return of_shards(job) if any(stored for *_, stored in parts) else _totals(parts)


def _totals(parts: Sequence[Sums], unmeasured: int = 0) -> KeptClips:
    items, seconds, waiting, waiting_seconds, _ = zip(*parts, strict=True) if parts else [()] * 5
    later = math.fsum(waiting_seconds)
    return {
        "items": sum(items) + sum(waiting),
        "hours": round((math.fsum(seconds) + later) / 3600, 6),
        "not_yet_transcribed": {"items": sum(waiting), "hours": round(later / 3600, 6)},
        "unmeasured": unmeasured,
    }


def _of_part(job: Job, table: pa.Table) -> Sums:
    draw, weight = weights.draws(job.package, table)
    good = outcome_table.passes(table, outcome_table.measured_rules(job))
    good = pc.and_(good, pc.invert(outcome_table.beyond_limits(table)))
    good = pc.and_(good, pa.array(~(draw >= weight)))
    waiting = pc.and_(good, pc.invert(table["heard"]))
    texts = outcome_table.passes(table, rules_of("text", job.transcribe.verdicts))
    packaged = pc.and_(good, pc.and_(table["heard"], texts))
    stored = pc.sum(table[outcome_table.STORED].filter(waiting)).as_py()
    return *_sum(table, packaged), *_sum(table, waiting), stored or 0


def of_shards(job: Job, splitting: bool = False) -> KeptClips:
    """The same as `kept`, from the manifests; `splitting`: with `leaks`."""
    with foreseen.version(job, manifest.shards(job.out)) as version:
        parts = [_outcomes(table) for table in version.utterances(["outcome", "seconds"])]
        unmeasured = sum(batch.facts.get("unmeasured", 0) for batch in version.batches)
        counts = _totals(parts, unmeasured)
        if recipe.across_recordings(job) is not None:
            spoken = components.speakers_in(version.clips(("dataset", "speaker")))
            counts["speakers"] = len(pc.unique(spoken.drop_null()))
        if splitting:
            clips = version.clips(leaks.COLUMNS)
            counts["leaks"] = leaks.of_utterances(clips["split"].unique().to_pylist(), [clips])
        return counts


def _outcomes(table: pa.Table) -> Sums:
    packaged, waiting = (pc.equal(table["outcome"], name) for name in ("packaged", PENDING))
    return *_sum(table, packaged), *_sum(table, waiting), 0


def _sum(table: pa.Table, mask: pa.Array | pa.ChunkedArray) -> tuple[int, float]:
    """The chosen rows, and their seconds."""
    chosen = table["seconds"].filter(mask)
    return len(chosen), float(pc.sum(chosen).as_py() or 0.0)
