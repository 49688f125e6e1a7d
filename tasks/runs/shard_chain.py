"""One shard through filter, resample and transcribe; damaged checkpoints are made again."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

from ..base.errors import CorruptManifest, RunError
from ..settings.job import Done, Job
from ..shard_store import compaction, manifest
from ..stages import stage
from .executor import Executor, Observer

REPAIRS = 3  # rounds of making damaged audio again before the disk is called bad


def chain(
    job: Job,
    shard: str,
    seconds: float,
    executor: Executor,
    observer: Observer,
) -> list[Done]:
    """Filter, resample and transcribe one shard as observed steps; damaged audio is made again.
    CorruptManifest if the shard's listing is damaged: its source has to be listed again."""
    ended: dict[str, Done] = {}
    for attempt in range(REPAIRS):
        try:
            sure = False
            for name in stage.PER_SHARD:
                before = ended.get(name)
                work = partial(run_stage, job, shard, seconds, executor, name, sure, before)
                done = observer.step(name, work, shard, seconds)
                if before is None and not done.ran:
                    observer.advance(name, seconds, reused=True)
                ended[name], sure = done, done.ran
                if done.converted:  # items of resample, made in the same pass
                    before = ended.get("resample") or Done("resample", shard)
                    ended["resample"] = replace(before, computed=before.computed + done.converted)
                    observer.advance("resample", done.converted_seconds)
            return [*ended.values()]
        except CorruptManifest as fault:
            if manifest.is_listing(job.out, fault):
                raise
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
    executor: Executor,
    name: str,
    sure: bool = False,
    before: Done | None = None,
) -> Done:
    """Run one stage for one shard; a complete shard is not sent to a worker.

    `sure`: the stage before it computed something, so something is missing. `before`: what the
    stage did before a repair, which the result counts, too.
    """
    missing, reused = (True, 0) if sure else stage.pending(name, job, shard)
    if missing or compaction.due(job.out, name, shard):
        done = executor.stage(name, job, shard, seconds)
    else:
        done = Done(name, shard, 0, reused)
    return done if before is None else done.after(before)
