"""The line of the data: shard, then filter, resample, transcribe per shard, then package.

`run` decides what has to be done, and in which order. A `Caller` gets functions to a worker: `Here`
runs them in this process, `flows/` on a cluster. An `Observer` is told of every step: `flows/`
makes Prefect task runs and progress bars of them.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from tasks import publishing, shard, storage
from tasks.callers import Caller, Here, Observer, Unobserved
from tasks.checkpoints import manifest
from tasks.checkpoints.index import Index
from tasks.errors import CorruptManifest, NothingLeft, RunError
from tasks.job import Done, Job
from tasks.results import Published, Sharded, Totals
from tasks.settled import Settled
from tasks.stages import quarantine, stage

log = logging.getLogger("uttermill")

REPAIRS = 3  # rounds of making damaged audio again before the disk is called bad


@dataclass(frozen=True, slots=True)
class Run:
    """A run that ended well."""

    sharded: Sharded
    published: Published
    totals: Totals


def run(job: Job, caller: Caller, observer: Observer) -> Run:
    """The whole line; only while holding OUT's lock.

    CorruptManifest where damaged audio was made again REPAIRS times, and is damaged still;
    NothingLeft where no utterance is left to package.
    """
    totals = Totals()
    if job.shard.retry:
        again = quarantine.forget(job.out)
        log.info("%d items that were quarantined for a death are tried again", again)
    for attempt in range(REPAIRS):
        found = sharded(job, caller, observer)
        totals.add(found.done)
        state = Settled(job, found.shards, found.index)
        _chains(job, found, caller, observer, state, totals)
        observer.start("package", found.done.seconds)
        work = partial(publishing.publish, job, found.shards, caller, caller.listing(job), state)
        try:
            published = observer.step("package", work)
        except NothingLeft as error:
            raise NothingLeft(error.args[0], error.reasons, found.ignored) from None
        except CorruptManifest:  # what it held is made again
            if attempt == REPAIRS - 1:
                raise
            continue
        totals.add(published.done)
        packaged = published.summary["seconds"]["packaged"]
        observer.start("package", packaged)
        observer.advance("package", packaged, reused=not published.new)
        observer.finish("package")
        return Run(found, published, totals)
    raise AssertionError("unreachable")


def run_here(job: Job) -> tuple[Published, dict[str, Any]]:
    """`run` in this process; returns what was published and the stages' counts."""
    ended = run(job, Here(), Unobserved())
    return ended.published, ended.totals.as_dict()


def sharded(job: Job, caller: Caller, observer: Observer) -> Sharded:
    """The shard stage as an observed step."""
    observer.start("shard", 0.0)
    found = observer.step("shard", partial(run_shard_stage, job, caller, caller.listing(job)))
    observer.start("shard", found.done.seconds)
    observer.advance("shard", found.done.seconds, reused=not found.done.ran)
    observer.finish("shard")
    observer.sharded(found)
    return found


def _chains(
    job: Job, found: Sharded, caller: Caller, observer: Observer, state: Settled, totals: Totals
) -> None:
    """The chains of all shards, with their counts."""
    for name in stage.PER_SHARD:
        observer.start(name, found.done.seconds)
    shards = found.shards
    if len(shards) > observer.most_shards:
        shards = [shard for shard in shards if state.items(shard) is None]
        for shard in set(found.shards) - set(shards):
            _pass_over(shard, found.seconds[shard], state, observer, totals)
        passed = len(found.shards) - len(shards)
        log.info("%d of %d shards are as the last run left them", passed, len(found.shards))

    def each(shard: str) -> list[Done]:
        return chain(job, shard, found.seconds[shard], caller, observer, state.items(shard) or {})

    results = observer.chains(shards, each)
    for name in stage.PER_SHARD:
        observer.finish(name)
    for dones in results:
        state.saw(dones)
        for done in dones:
            totals.add(done)


def _pass_over(
    shard: str, seconds: float, state: Settled, observer: Observer, totals: Totals
) -> None:
    """Count a shard that lacks nothing."""
    for name, count in (state.items(shard) or {}).items():
        observer.advance(name, seconds, reused=True)
        totals.add(Done(name, shard, 0, count), task_run=False)


def chain(
    job: Job,
    shard: str,
    seconds: float,
    caller: Caller,
    observer: Observer,
    there: Mapping[str, int],
) -> list[Done]:
    """Filter, resample and transcribe one shard as observed steps; damaged audio is made again.

    `there`: items of each stage of a shard that is known to lack nothing.
    """
    for attempt in range(REPAIRS):
        try:
            dones: list[Done] = []
            for name in stage.PER_SHARD:
                sure = bool(dones) and dones[-1].ran
                work = partial(run_stage, job, shard, seconds, caller, name, sure, there.get(name))
                done = observer.step(name, work, shard, seconds)
                if not done.ran:
                    observer.advance(name, seconds, reused=True)
                dones.append(done)
            return dones
        except CorruptManifest as fault:
            manifest.remove_damaged(fault)
            if attempt == REPAIRS - 1:
                raise RunError(
                    f"{fault}, again after {REPAIRS} repairs: is the disk sound?"
                ) from None
    raise AssertionError("unreachable")


def run_shard_stage(job: Job, caller: Caller, scratch: Path) -> Sharded:
    """List, probe what is new on the workers, group, commit."""
    began = time.monotonic()
    manifest.sweep(job.out)
    index = Index(job.out)
    index.warn_of_gone()
    found = shard.survey(job)
    rows: list[manifest.Row] = []
    if found.probe:
        listing = scratch / "listing.parquet"
        shard.save_listing([row for _, row in found.probe], listing)
        step = job.shard.probe_batch
        ranges = range(0, len(found.probe), step)
        paths = caller.map(
            shard.probe,
            [(job, listing, low, min(low + step, len(found.probe))) for low in ranges],
        )
        for path in paths:
            rows += shard.load_listing(path)
        storage.of(scratch).clear(scratch)
    for row in rows:
        if row["error_code"] == "changed":
            found.left.append(shard.still_written(row))
    shards = shard.settle(job, found, rows)
    seconds = {name: sum(map(shard.seconds_of, found.present(name))) for name in shards}
    wall = time.monotonic() - began
    done = Done("shard", "", len(rows), found.reused, sum(seconds.values()), wall)
    # What is gone was reported, and what was superseded is not missing.
    index.refresh(["manifests/shard"])
    index.note_files()
    # The longest shards first: no straggler at the end.
    shards.sort(key=lambda name: (-seconds[name], name))
    return Sharded(shards, done, index, found.ignored, found.left, seconds)


def run_stage(
    job: Job,
    shard: str,
    seconds: float,
    caller: Caller,
    name: str,
    sure: bool = False,
    there: int | None = None,
) -> Done:
    """One stage for one shard; nothing is sent to a worker when nothing is missing.

    `sure`: the stage before it made something, so there is no need to look. `there`: how many items
    a shard has that is known to lack none.
    """
    if there is not None:
        return Done(name, shard, 0, there)
    if not sure:
        missing, reused = stage.pending(name, job, shard)
        if not missing:
            return Done(name, shard, 0, reused)
    return caller.stage(name, job, shard, seconds)
