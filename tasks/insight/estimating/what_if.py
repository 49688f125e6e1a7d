"""Computes `what-if`: items and hours that other settings would keep, from stored results alone."""

from __future__ import annotations

import math
from dataclasses import replace

import pyarrow as pa
import pyarrow.compute as pc

from ...accounting.ledger import PENDING
from ...base import logs
from ...base.json_types import JsonObject
from ...publish import corpus, foreseen, leaks, published_columns
from ...publish.choosing import components
from ...publish.corpus import limits
from ...settings.job import Job
from ...shard_store import clip_choice, manifest, recipe


def with_same_texts(now: Job, then: Job) -> Job:
    """`then` with the resampling and the recogniser of `now`, so that stored texts take the place
    of those that `then` would have to recognise."""
    same = {"backend": now.transcribe.backend, "backends": now.transcribe.backends}
    same |= {"hear": now.transcribe.hear}
    transcribe = then.transcribe.model_copy(update=same)
    return replace(then, resample=now.resample, transcribe=transcribe)


def kept(now: Job, then: Job) -> tuple[JsonObject, JsonObject]:
    """What is kept under both settings, as by `of_shards`; with `leaks` if settings of splits
    differ."""
    names = ("splits", "disjoint", "resplit", "split_conflicts")  # by which clips may be dropped
    splitting = any(getattr(now.package, n) != getattr(then.package, n) for n in names)
    with logs.silent():  # the run has logged these warnings already
        before = of_shards(now, splitting)
    return before, of_shards(then, splitting)


def of_shards(job: Job, splitting: bool = False) -> JsonObject:
    """The `items` and `hours` that a job keeps, including those `not_yet_transcribed`; how many
    recordings lack a measure (`unmeasured`); the number of `speakers`, if they are linked across
    recordings; with `splitting`, `leaks` as in dataset.json."""
    with foreseen.version(job, manifest.shards(job.out)) as version:
        nothing = limits.outcomes_schema(job).empty_table().select(["outcome", "seconds"])
        outcomes = pa.concat_tables([nothing, *version.utterances(nothing.column_names)])
        packaged, waiting = (
            outcomes["seconds"].filter(pc.equal(outcomes["outcome"], name)).to_numpy()
            for name in ("packaged", PENDING)
        )
        unmeasured = sum(batch.facts.unmeasured for batch in version.batches)
        later = math.fsum(waiting)
        counts: JsonObject = {
            "items": len(packaged) + len(waiting),
            "hours": round((math.fsum(packaged) + later) / 3600, 6),
            "not_yet_transcribed": {"items": len(waiting), "hours": round(later / 3600, 6)},
            "unmeasured": unmeasured,
        }
        if recipe.across_recordings(job) is not None:
            spoken = components.speakers_in(version.clips(("dataset", "speaker")))
            counts["speakers"] = len(pc.unique(spoken.drop_null()))
        if splitting:
            clips = version.clips(leaks.columns(published_columns.row_schema(job).names))
            names = clips["split"].unique().to_pylist()
            memory, linked = (job.package.memory, job.scratch), version.choice.linked
            voices = leaks.voices(job, version.batches)
            counts["leaks"] = leaks.of_utterances(names, [clips], *memory, linked, voices)
        return counts


def explained(job: Job) -> list[str]:
    """For `--explain`: SQL over the facts of all utterances; as comments, what drops others of its
    packaged ones."""
    printed = ["-- The outcome of each utterance, by the facts that its shard stored (facts):"]
    printed += limits.query(job).splitlines()
    chosen = corpus.chosen(job)
    later = [f"{shelf}.{plugin.use}, which compares all clips" for shelf, plugin in chosen]
    if clip_choice.restricts(job.package):
        later.append("package.only and package.without, by what is known after recognition")
    settings = ("weights", "max_hours_per_speaker", "splits")
    later += [f"package.{name}" for name in settings if getattr(job.package, name)]
    if later:
        printed += ["-- Of what it packages, these drop more, in this order:"]
        printed += [f"--   {line}" for line in later]
    return printed
