"""The package stage of a run: decide, and write on the workers, then publish."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any

from .. import storage
from ..base.errors import CorruptManifest, MillError
from ..base.logs import log
from ..publish import package
from ..publish.dataset.datacard import Gathered
from ..publish.outcomes import batch_outcomes, shard_batches
from ..publish.outcomes.shard_batches import ShardBatch
from ..publish.output_shards import plan
from ..publish.unchanged import UpToDate, Version
from ..settings.job import Done, Job, Spoken
from ..shard_store import manifest
from ..stages.call import Call, Deadline, Limits, of_shards
from ..storage import lock, publication, versions
from .executor import Elected, Executor, Published

HOUR = 3600.0
TARS_OF_LINK = 128  # about as many tars as one call links (`tables.ROWS` clips)


def _of_batch(limits: Limits, isolated: bool, args: tuple[Any, ...]) -> float:
    batch: ShardBatch = args[1]
    return of_shards(len(batch.shards), limits, isolated, args)


def _of_tars(count: int) -> Deadline:
    return lambda limits, isolated, args: limits.of_audio(args[0].package.tar_hours * HOUR * count)


COLLECT = Call("package", "facts", batch_outcomes.collect, _of_batch)
LINK = Call("package", "link", plan.link, _of_tars(TARS_OF_LINK))
WRITE = Call("package", "write", plan.write, _of_tars(2))  # and read back


def publish(
    job: Job, shards: Sequence[str], executor: Executor, scratch: Path, state: UpToDate
) -> Published | Elected:
    """Decide, gather, write output shards and read them back on the workers, then publish, unless
    `state` knows that the newest version is up to date; files that it has lost are made again.
    RunError if OUT was moved meanwhile; CorruptManifest when a blob is damaged: it has been
    removed, and the chains must run again. They must run again after `Elected`, too."""
    began, laps = time.monotonic(), Laps()
    lock.check(job.out)
    versions.clean(job.out)
    state.freeze()
    before = versions.newest(job.out)
    lost = package.lost(before) if before else []
    for name in lost:
        log.warning("%s of %s is gone or cut short; it is made again", name, before)
    if not lost and (newest := state.version()):
        return _unchanged(job, newest, began)
    with _cleaned(job.out):
        storage.store_of(scratch).clear(scratch)
        keys = state.keys()
        batches = shard_batches.of_shards(job, {shard: keys[shard] for shard in shards})
        executor.map(COLLECT, [(job, batch) for batch in shard_batches.missing(job, batches)])
        laps.end("decide")
        gathered, numbers = gather(job, batches, executor, scratch, lost)
        if not isinstance(gathered, Gathered):
            return Elected(gathered, Done("package", "", wall=time.monotonic() - began))
        storage.store_of(scratch).clear(scratch)
        laps.end("gather")
        counts, balance = gathered.summary, gathered.balance
        clips, seconds = counts["utterances"]["packaged"], counts["seconds"]["packaged"]
        version = Version(gathered.version, clips, counts, balance)
        if not gathered.new and not lost:
            versions.clean(job.out)
            published = _unchanged(job, version, began)
            with _optional(job):
                state.save(version, gathered.changed)
                shard_batches.forget(job.out, batches, gathered.changed)
            return published
        staging = storage.place(gathered.staging)
        planned = plan.numbered(staging)
        executor.map(WRITE, [(job, staging, number) for number in numbers])
        laps.end("write")
        path = package.publish(job, gathered, lost)
        versions.clean(job.out)
        state.save(version, gathered.changed)
        shard_batches.forget(job.out, batches, gathered.changed)
        _withdraw_old(job)
        laps.end("publish")
    # A group is numbered within its part of the plan.
    groups = {(plan.part_of(n), planned[n].group): planned[n].clips for n in numbers}
    computed = sum(groups.values())
    wall = time.monotonic() - began
    done = Done("package", "", computed, clips - computed, seconds, wall, new=gathered.new)
    if not gathered.new:
        return Published(path, False, counts, done, balance, laps.walls, restored=lost)
    linked = len(planned) - len(numbers)
    return Published(
        path, True, counts, done, balance, laps.walls, len(numbers), linked, gathered.arrived
    )


class Laps:
    def __init__(self) -> None:
        self.walls: dict[str, float] = {}
        self._last = time.monotonic()

    def end(self, step: str) -> None:
        now = time.monotonic()
        self.walls[step], self._last = round(now - self._last, 3), now


def _withdraw_old(job: Job) -> None:
    if (keep := job.package.keep) is not None:
        for old in versions.beyond(job.out, keep):
            log.info("%s is older than the newest %d versions (package.keep)", old.name, keep)
            publication.publisher(job.out).withdraw([old])


@contextmanager
def _cleaned(out: Path) -> Iterator[None]:
    """Remove the unfinished version after an error, and the damaged file of a CorruptManifest."""
    try:
        yield
    except CorruptManifest as fault:
        manifest.repair(out, fault)
        versions.clean(out)
        raise
    except storage.Away:  # the next run cleans
        raise
    except BaseException:
        with suppress(MillError, OSError):  # it does not hide why the run ended
            versions.clean(out)
        raise


def gather(
    job: Job,
    batches: Sequence[ShardBatch],
    executor: Executor,
    scratch: Path,
    lost: Sequence[str] = (),
) -> tuple[Gathered | Spoken, list[int]]:
    """Everything of the next version but the output shards that must be written, staged; and their
    numbers. `lost`: files that the newest version lacks: if nothing is new, it is staged all the
    same."""
    whole = partial(of_shards, sum(len(batch.shards) for batch in batches))
    gathering = Call("package", "gather", package.gather, whole)
    staging = versions.stage(job.out, versions.next_number(job.out))
    gathered: Gathered | Spoken = executor.call(gathering, job, batches, scratch, staging)
    if not isinstance(gathered, Gathered) or (not gathered.new and not lost):
        return gathered, []
    unlinked = executor.map(LINK, [(job, staging, part) for part in plan.parts(staging)])
    return gathered, [number for numbers in unlinked for number in numbers]


@contextmanager
def _optional(job: Job) -> Iterator[None]:
    """Ignore failures of writes that only save the next run some work."""
    try:
        yield
    except CorruptManifest:
        raise
    except (MillError, OSError) as error:
        log.warning("nothing is new, but %s cannot be reached: %s", job.out, error)


def _unchanged(job: Job, version: Version, began: float) -> Published:
    with _optional(job):
        versions.point_latest(job.out)
    done = Done("package", "", 0, version.clips, 0, time.monotonic() - began)
    path = versions.numbered(job.out, version.number)
    return Published(path, False, version.summary, done, version.balance)
