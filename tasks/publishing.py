"""The package stage of a run: decide, write and check on the workers, then publish."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

from tasks import package, storage
from tasks.callers import Caller
from tasks.checkpoints import manifest
from tasks.dataset import versions
from tasks.errors import CorruptManifest, MillError
from tasks.job import Done, Job
from tasks.packaging import plan, shard_decisions
from tasks.results import Published
from tasks.settled import Settled, Version

log = logging.getLogger("uttermill")


def publish(
    job: Job, shards: Sequence[str], caller: Caller, scratch: Path, state: Settled
) -> Published:
    """Decide, gather, write and check output shards on the workers, then publish the version.

    Nothing is done where `state` knows that the newest version is today's. CorruptManifest when a
    blob is damaged: it has been removed, and the chains must run again.
    """
    began = last = time.monotonic()
    walls: dict[str, float] = {}

    def lap(step: str) -> None:
        nonlocal last
        walls[step], last = round(time.monotonic() - last, 3), time.monotonic()

    versions.clean(job.out)
    state.decide()
    if known := state.version():
        return _unchanged(job, known, began)
    try:
        shards = sorted(shards)
        if parts := shard_decisions.batches(shards, scratch):
            caller.map(shard_decisions.save, [(job, some, home) for home, some in parts])
            lap("decide")
        gathered = caller.call(package.gather, job, shards, scratch)
        for home, _ in parts:
            storage.of(home).clear(home)
        lap("gather")
        count = gathered["summary"]["utterances"]["packaged"]
        seconds = gathered["summary"]["seconds"]["packaged"]
        version = Version(gathered["version"], count, gathered["summary"], gathered["balance"])
        if not gathered["new"]:
            published = _unchanged(job, version, began)
            with _optional(job):
                state.save(version, gathered["changed"])
            return published
        staging = storage.place(gathered["staging"])
        planned = plan.all_shards(staging)
        numbers = range(len(planned))
        linked = caller.map(package.write, [(job, staging, number) for number in numbers])
        lap("write")
        written = [number for number, old in zip(numbers, linked, strict=True) if not old]
        caller.map(package.check, [(job, staging, number) for number in written])
        lap("verify")
        path = package.publish(job, gathered)
        state.save(version, gathered["changed"])
        lap("publish")
    except CorruptManifest as fault:
        log.warning("%s; what it held is made again", fault)
        manifest.remove_damaged(fault)
        versions.clean(job.out)
        raise
    except BaseException:
        with suppress(MillError, OSError):  # a store that is away does not hide why it ended
            versions.clean(job.out)
        raise
    wall = time.monotonic() - began
    computed = sum({planned[n].group: planned[n].clips for n in written}.values())
    done = Done("package", "", computed, count - computed, seconds, wall, new=True)
    return Published(
        path,
        True,
        gathered["summary"],
        done,
        walls,
        len(written),
        len(planned) - len(written),
        gathered["balance"],
    )


@contextmanager
def _optional(job: Job) -> Iterator[None]:
    """Around what only saves the next run some work: a run that had nothing to do does not fail
    because the store is away by now."""
    try:
        yield
    except CorruptManifest:
        raise
    except (MillError, OSError) as error:
        log.warning("nothing is new, but %s cannot be reached: %s", job.out, error)


def _unchanged(job: Job, version: Version, began: float) -> Published:
    """The newest version, which stays as it is."""
    with _optional(job):
        versions.point_latest(job.out)
    done = Done("package", "", 0, version.clips, 0, time.monotonic() - began)
    path = versions.numbered(job.out, version.number)
    return Published(path, False, version.summary, done, balance=version.balance)
