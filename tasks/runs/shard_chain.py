"""One shard through filter, resample and transcribe; damaged checkpoints are made again."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from tasks.base.errors import CorruptManifest, RunError
from tasks.runs.executor import Caller, Observer
from tasks.settings.job import Done, Job
from tasks.shard_store import compaction, manifest
from tasks.stages import stage

REPAIRS = 3  # rounds of making damaged audio again before the disk is called bad


def chain(
    job: Job,
    shard: str,
    seconds: float,
    caller: Caller,
    observer: Observer,
    there: Mapping[str, int],
    files: int = 1,
) -> list[Done]:
    """Filter, resample and transcribe one shard as observed steps; damaged audio is made again.

    `there`: items of each stage if the shard is known to be complete. `files`: the most files that
    any stage has for it: several may need joining, and with none there is nothing to look up.
    """
    for attempt in range(REPAIRS):
        try:
            dones: list[Done] = []
            for name in stage.PER_SHARD:
                sure = dones[-1].ran if dones else not files and not attempt
                looked = sure, there.get(name), files > 1
                work = partial(run_stage, job, shard, seconds, caller, name, *looked)
                done = observer.step(name, work, shard, seconds)
                if not done.ran:
                    observer.advance(name, seconds, reused=True)
                dones.append(done)
            return dones
        except CorruptManifest as fault:
            manifest.repair(job.out, fault)
            if attempt == REPAIRS - 1:
                raise RunError(
                    f"{fault}; it is damaged again after {REPAIRS} repairs: check the disk"
                ) from None
    raise AssertionError("unreachable")


def run_stage(
    job: Job,
    shard: str,
    seconds: float,
    caller: Caller,
    name: str,
    sure: bool = False,
    there: int | None = None,
    crowded: bool = False,
) -> Done:
    """Run one stage for one shard; a complete shard is not sent to a worker.

    `sure`: the stage before it computed something, or none has run, so something is missing.
    `there`: the number of items if the shard is known to be complete. `crowded`: its files may need
    joining.
    """
    if there is not None:
        return Done(name, shard, 0, there)
    if not sure:
        missing, reused = stage.pending(name, job, shard)
        if not missing and not (crowded and compaction.due(job.out, name, shard)):
            return Done(name, shard, 0, reused)
    return caller.stage(name, job, shard, seconds)
