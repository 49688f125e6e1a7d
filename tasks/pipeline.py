"""The straight way of the data: shard, then filter, resample, transcribe per shard, then package.

What is here decides what has to be done and in which order; how a function gets to a worker is the
caller's: `Here` runs everything in this process, `flows/` sends it to a cluster under guards.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from tasks import package, shard, storage
from tasks.checkpoints import manifest
from tasks.checkpoints.index import Index
from tasks.dataset import versions
from tasks.errors import CorruptManifest, MillError, RunError
from tasks.job import Done, Job
from tasks.packaging import plan, shard_decisions
from tasks.settled import Settled, Version
from tasks.stages import quarantine, stage

log = logging.getLogger("uttermill")

REPAIRS = 3  # rounds of making damaged audio again before the disk is called bad


class Caller(Protocol):
    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        """Run `work(*args)` somewhere."""

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        """Run one stage for one shard, surviving whatever kills it."""

    def map(self, work: Callable[..., Any], args: Sequence[tuple[Any, ...]]) -> list[Any]:
        """Run `work` for each tuple of arguments, results in order."""


class Here:
    """Everything in this process: for tests, debuggers and notebooks."""

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        return work(*args)

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        return stage.run(name, job, shard)

    def map(self, work: Callable[..., Any], args: Sequence[tuple[Any, ...]]) -> list[Any]:
        return [work(*each) for each in args]


@dataclass(slots=True)
class Sharded:
    """What the shard stage found: all shards with recordings, and what was left aside."""

    shards: list[str]
    done: Done
    index: Index
    ignored: dict[str, int] = field(default_factory=dict)
    left: list[shard.LeftAside] = field(default_factory=list)
    seconds: dict[str, float] = field(default_factory=dict)  # audio of each shard by header


def prepare_retry(job: Job) -> None:
    """Before the first round of a run: forget the deaths that it is to try again."""
    if job.shard.retry:
        again = quarantine.forget(job.out)
        log.info("%d items that were quarantined for a death are tried again", again)


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
    job: Job, shard_id: str, seconds: float, caller: Caller, name: str, sure: bool = False,
    there: int | None = None,
) -> Done:  # fmt: skip
    """One stage for one shard; nothing is sent to a worker when nothing is missing.

    `sure`: the stage before it made something, so there is no need to look; nor where it is known
    how many items are `there`, and that no other is missing.
    """
    if there is not None:
        return Done(name, shard_id, 0, there)
    if not sure:
        missing, reused = stage.pending(name, job, shard_id)
        if not missing:
            return Done(name, shard_id, 0, reused)
    return caller.stage(name, job, shard_id, seconds)


def run_chain(step: Callable[[str, bool], Done]) -> list[Done]:
    """filter, resample, transcribe of one shard; damaged audio is made again."""
    for attempt in range(REPAIRS):
        try:
            done: list[Done] = []
            for name in stage.PER_SHARD:
                done.append(step(name, bool(done) and done[-1].ran))
            return done
        except CorruptManifest as fault:
            manifest.discard(storage.place(fault.path))
            if attempt == REPAIRS - 1:
                raise RunError(
                    f"{fault}, again after {REPAIRS} repairs: is the disk sound?"
                ) from None
    raise AssertionError("unreachable")


@dataclass(slots=True)
class Published:
    """The version that holds today's data, and whether this run made it."""

    path: Path
    new: bool
    summary: dict[str, Any]
    done: Done
    walls: dict[str, float] = field(default_factory=dict)  # s of each step
    written: int = 0  # output shards that were written: one a tar in most formats
    linked: int = 0  # and those whose files are linked from the previous version
    balance: dict[str, Any] = field(default_factory=dict)


def run_package_stage(
    job: Job, shards: Sequence[str], caller: Caller, scratch: Path, state: Settled | None = None
) -> Published:
    """Decide, gather, write and check output shards on the workers, publish by one rename; nothing
    of it where `state` knows that the newest version is today's.

    CorruptManifest when a blob is damaged: it was set aside, the chains must run again.
    """
    began = last = time.monotonic()
    walls: dict[str, float] = {}

    def lap(step: str) -> None:
        nonlocal last
        walls[step], last = round(time.monotonic() - last, 3), time.monotonic()

    versions.clean(job.out)
    if state is not None:
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
            if state is not None:
                with _mended_next_time(job):
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
        if state is not None:
            state.save(version, gathered["changed"])
        lap("publish")
    except CorruptManifest as fault:
        log.warning("%s; what it held is made again", fault)
        manifest.discard(storage.place(fault.path))
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
        path, True, gathered["summary"], done, walls, len(written), len(planned) - len(written),
        gathered["balance"],
    )  # fmt: skip


@contextmanager
def _mended_next_time(job: Job) -> Iterator[None]:
    """Notes that save the next run some work: a store that is away by now fails no run that had
    nothing to do."""
    try:
        yield
    except CorruptManifest:
        raise
    except (MillError, OSError) as error:
        log.warning("nothing is new, but %s cannot be reached: %s", job.out, error)


def _unchanged(job: Job, version: Version, began: float) -> Published:
    """Nothing is published: the newest version is as it was."""
    with _mended_next_time(job):
        versions.point_latest(job.out)
    done = Done("package", "", 0, version.clips, 0, time.monotonic() - began)
    path = versions.numbered(job.out, version.number)
    return Published(path, False, version.summary, done, balance=version.balance)


def run_here(job: Job) -> tuple[Published, dict[str, Any]]:
    """The whole line in this process; returns what was published and the stages' counts."""
    caller = Here()
    totals = Totals()
    scratch = job.out / "manifests" / ".listing"
    prepare_retry(job)
    for attempt in range(REPAIRS):
        sharded = run_shard_stage(job, caller, scratch)
        totals.add(sharded.done)
        state = Settled(job, sharded.shards, sharded.index)
        for name in sharded.shards:
            for done in _chain(job, name, sharded.seconds[name], caller, state):
                totals.add(done)
        try:
            published = run_package_stage(job, sharded.shards, caller, scratch, state)
        except CorruptManifest:
            if attempt == REPAIRS - 1:
                raise
            continue
        totals.add(published.done)
        return published, totals.as_dict()
    raise AssertionError("unreachable")


def _chain(job: Job, shard_id: str, seconds: float, caller: Caller, state: Settled) -> list[Done]:
    there = state.items(shard_id) or {}

    def step(name: str, sure: bool) -> Done:
        return run_stage(job, shard_id, seconds, caller, name, sure, there.get(name))

    dones = run_chain(step)
    state.saw(dones)
    return dones


class Totals:
    """Counts of a run, stage by stage, as `run --json` gives them."""

    def __init__(self) -> None:
        self.stages: dict[str, dict[str, Any]] = {
            name: {
                "shards_run": 0, "shards_reused": 0, "items_computed": 0, "items_reused": 0,
                "seconds": 0.0,
            }
            for name in ("shard", *stage.PER_SHARD, "package")
        }  # fmt: skip

        self.task_runs = 0  # Prefect's: one each time a stage was run or found done

    def add(self, done: Done, task_run: bool = True) -> None:
        self.task_runs += task_run
        entry = self.stages[done.stage]
        entry["shards_run" if done.ran else "shards_reused"] += 1
        entry["items_computed"] += done.computed
        entry["items_reused"] += done.reused
        entry["seconds"] = round(entry["seconds"] + done.wall, 3)

    def as_dict(self) -> dict[str, Any]:
        return self.stages
