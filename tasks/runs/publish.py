"""The package stage of a run: decide, write and check on the workers, then publish."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from .. import package, storage
from ..base.errors import CorruptManifest, MillError
from ..base.logs import log
from ..formats import OutputShard
from ..publish import outcome_parts
from ..publish.choosing import next_version
from ..publish.ledger import layout as ledger_layout
from ..publish.ledger import ledger_parts
from ..publish.outcomes import batch_outcomes, shard_batches
from ..publish.outcomes.shard_batches import ShardBatch
from ..publish.output_shards import plan
from ..publish.unchanged import UpToDate, Version
from ..publish.writing import shards as output_shards
from ..publish.writing import table_parts as parts
from ..settings.job import Done, Job
from ..shard_store import manifest
from ..stages.call import Call, Limits, of_shards
from ..storage import publication, versions
from .executor import Executor
from .results import Published

HOUR = 3600.0


def _of_batch(limits: Limits, isolated: bool, args: tuple[Any, ...]) -> float:
    batch: ShardBatch = args[1]
    return of_shards(len(batch.shards))(limits, isolated, args)


def _of_tar(limits: Limits, isolated: bool, args: tuple[Any, ...]) -> float:
    job: Job = args[0]
    return limits.of_audio(job.package.tar_hours * HOUR)


def _of_part(limits: Limits, isolated: bool, args: tuple[Any, ...]) -> float:
    job: Job = args[0]
    return limits.of_audio(job.package.tar_hours * HOUR * parts.tars_of_part(job.package))


COLLECT = Call("package", "facts", batch_outcomes.collect, _of_batch)
ACCOUNT = Call("package", "account", batch_outcomes.account, of_shards(shard_batches.AT_ONCE))
SCATTER = Call("package", "scatter", parts.scatter, _of_part)
PART = Call("package", "part", parts.write, _of_part)
LINK = Call("package", "link", output_shards.link, _of_part)
WRITE = Call("package", "write", output_shards.write, _of_tar)
CHECK = Call("package", "check", output_shards.check, _of_tar)


def publish(
    job: Job, shards: Sequence[str], executor: Executor, scratch: Path, state: UpToDate
) -> Published:
    """Decide, gather, write and check output shards on the workers, then publish the version.

    Does nothing if `state` knows that the newest version is up to date. CorruptManifest when a blob
    is damaged: it has been removed, and the chains must run again.
    """
    began, laps = time.monotonic(), Laps()
    versions.clean(job.out)
    state.freeze()
    if newest := state.version():
        return _unchanged(job, newest, began)
    with _cleaned(job.out):
        storage.of(scratch).clear(scratch)
        keys = state.keys()
        batches = shard_batches.of_shards(job, {shard: keys[shard] for shard in shards})
        executor.map(COLLECT, [(job, batch) for batch in shard_batches.missing(job, batches)])
        laps.end("decide")
        gathered = gather(job, batches, executor, scratch, state.names_hash())
        storage.of(scratch).clear(scratch)
        laps.end("gather")
        counts, balance = gathered.summary, gathered.balance
        clips, seconds = counts["utterances"]["packaged"], counts["seconds"]["packaged"]
        version = Version(gathered.version, clips, counts, balance)
        if not gathered.new:
            versions.clean(job.out)
            published = _unchanged(job, version, began)
            with _optional(job):
                state.save(version, gathered.changed)
                shard_batches.forget(job.out, batches, gathered.changed)
            return published
        planned, written = _write(job, gathered, executor, laps)
        path = package.publish(job, gathered)
        state.save(version, gathered.changed)
        shard_batches.forget(job.out, batches, gathered.changed)
        if job.package.keep is not None:
            _remove_old(job.out, job.package.keep)
        laps.end("publish")
    # A group is numbered within its table part.
    groups = {(plan.part_and_index(n)[0], planned[n].group): planned[n].clips for n in written}
    computed = sum(groups.values())
    wall = time.monotonic() - began
    done = Done("package", "", computed, clips - computed, seconds, wall, new=True)
    linked = len(planned) - len(written)
    return Published(
        path, True, counts, done, balance, laps.walls, len(written), linked, gathered.arrived
    )


class Laps:
    """Wall seconds of the steps of the stage."""

    def __init__(self) -> None:
        self.walls: dict[str, float] = {}
        self._last = time.monotonic()

    def end(self, step: str) -> None:
        now = time.monotonic()
        self.walls[step], self._last = round(now - self._last, 3), now


def _write(
    job: Job, gathered: package.Gathered, executor: Executor, laps: Laps
) -> tuple[dict[int, OutputShard], list[int]]:
    """Link or write all output shards, and check the written ones: all by number, and the numbers
    of those that were written."""
    staging = storage.place(gathered.staging)
    parts = [part.number for part in gathered.parts if not part.file]  # else linked as a whole
    unlinked = executor.map(LINK, [(job, staging, part) for part in parts])
    planned = plan.numbered(staging)
    written = [number for numbers in unlinked for number in numbers]
    executor.map(WRITE, [(job, staging, number) for number in written])
    laps.end("write")
    executor.map(CHECK, [(job, staging, number) for number in written])
    laps.end("verify")
    return planned, written


@contextmanager
def _cleaned(out: Path) -> Iterator[None]:
    """Remove the unfinished version after an error, and the damaged file of a CorruptManifest."""
    try:
        yield
    except CorruptManifest as fault:
        manifest.repair(out, fault)
        versions.clean(out)
        raise
    except BaseException:
        with suppress(MillError, OSError):  # a store that is away does not hide why it ended
            versions.clean(out)
        raise


def gather(
    job: Job,
    batches: Sequence[ShardBatch],
    executor: Executor,
    scratch: Path,
    manifests: str | None = None,
) -> package.Gathered:
    """Everything of the next version but its output shards, staged: what `package.gather` says of
    it, and `tables`, the digests of its tables' files. `manifests`: see `outcome_parts.note`."""
    shard_batches.list_in(scratch, batches)
    whole = of_shards(sum(len(batch.shards) for batch in batches))
    batches = shard_batches.listed(scratch)
    executor.call(Call("package", "decide", batch_outcomes.decide, whole), job, batches)
    chosen = executor.call(Call("package", "choose", next_version.choose, whole), job, scratch)
    numbers = range(len(batches))
    executor.map(ACCOUNT, [(job, scratch, number) for number in numbers])
    executor.call(Call("package", "note", outcome_parts.note, whole), job, scratch, manifests)
    newest = versions.newest(job.out)
    staging = versions.stage(job.out, versions.next_number(job.out))
    ledger = executor.call(Call("package", "ledger", ledger_layout.plan, whole), job, scratch)
    executor.map(
        Call("package", "ledger", ledger_parts.write, whole),
        [(job, scratch, some, staging, newest) for some in ledger.calls],
    )
    executor.map(
        Call("package", "ledger", ledger_parts.link, whole),
        [(job, scratch, *link, staging) for link in enumerate(ledger_parts.linking(ledger.links))],
    )
    gathering = Call("package", "gather", package.gather, whole)
    damaged: list[str] = []
    while True:
        gathered: package.Gathered = executor.call(
            gathering, job, scratch, staging, chosen, ledger.fingerprint, damaged
        )
        if not gathered.new:
            return gathered
        executor.map(SCATTER, [(job, number, scratch) for number in gathered.needed])
        planned = gathered.parts
        written = executor.map(PART, [(job, part, scratch, staging, newest) for part in planned])
        unread = {
            name for result in written if isinstance(result, parts.Damaged) for name in result.files
        }
        if not unread:
            digests = {
                part.name: digest
                for part, digest in zip(planned, written, strict=True)
                if not isinstance(digest, parts.Damaged)
            }
            return replace(gathered, tables={**gathered.tables, **digests})
        log.warning("%s of %s cannot be read; it is made again", ", ".join(sorted(unread)), newest)
        damaged += sorted(unread)
        storage.of(staging).remove_tree(staging / plan.PLAN)
        for name in parts.FOLDERS:
            storage.of(scratch).remove_tree(scratch / name)


def _remove_old(out: Path, keep: int) -> None:
    """Remove versions older than the newest `keep`."""
    for version in versions.beyond(out, keep):
        log.info("%s is older than the newest %d versions (package.keep)", version.name, keep)
        publication.of(out).withdraw([version])


@contextmanager
def _optional(job: Job) -> Iterator[None]:
    """Ignore failures of writes that only save the next run some work: a run with nothing to do
    must not fail because the store has become unreachable."""
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
