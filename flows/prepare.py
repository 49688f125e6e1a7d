"""The flow: shard, then filter, resample, transcribe for each shard on its own, then package.

Wiring only. The flow's parameters are the stages' settings; what is done stands in the Parquet
manifests, so that a UI rerun, a schedule and a local run resume alike.
"""

# No postponed annotations here: `prepare.serve` has this file loaded by its path, as no module that
# Prefect could look the parameters' types up in, and every flow run failed.

import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from prefect import flow
from prefect.context import FlowRunContext

from flows import history, lock, remote, report, runs
from flows.calls import OnCluster
from flows.cluster import Cluster, ClusterSettings
from flows.progress import Progress
from flows.runner import map_chains
from flows.settings import PrepareSettings, check
from tasks import gpu, pipeline, prefect_tasks, summary, versions
from tasks.errors import CorruptManifest
from tasks.job import Done, Job
from tasks.pipeline import Published, Sharded, Totals
from tasks.prefect_tasks import value
from tasks.settings import (
    FilterSettings,
    PackageSettings,
    ResampleSettings,
    ShardSettings,
    Source,
    TranscribeSettings,
)

log = logging.getLogger("uttermill")

SHARDS_PER_FLOW = 100  # three task runs each: Prefect's server records some 300 a flow run well


@flow(name="prepare", flow_run_name="prepare {out}", persist_result=False)
def prepare(
    sources: list[Source],
    out: str,
    shard: ShardSettings = ShardSettings(),  # noqa: B008 - frozen
    filter: FilterSettings = FilterSettings(),  # noqa: B008
    resample: ResampleSettings = ResampleSettings(),  # noqa: B008
    transcribe: TranscribeSettings = TranscribeSettings(),  # noqa: B008
    package: PackageSettings = PackageSettings(),  # noqa: B008
    cluster: ClusterSettings = ClusterSettings(),  # noqa: B008
) -> dict[str, Any]:
    """Raw recordings in, a verified dataset version out.

    Safe to run again at any time: what is done is reused, what is missing is made.
    """
    settings = PrepareSettings(
        sources=tuple(sources), out=out, shard=shard, filter=filter, resample=resample,
        transcribe=transcribe, package=package, cluster=cluster,
    )  # fmt: skip
    began = time.monotonic()
    job = check(settings)
    with lock.hold(job.out):
        _record(job.out)
        with (
            runs.record(job.out, settings) as run,
            runs.scratch() as scratch,
        ):
            result = _run(replace(job, scratch=scratch), settings, scratch)
            result["wall_seconds"] = round(time.monotonic() - began, 3)
            run.finish(result)
            report.of_run(job, run.folder, result["new"])
    return result


def _record(out: Path) -> None:
    """Tag this flow run with its OUT, and close what dead runs of the same OUT left open."""
    context = FlowRunContext.get()
    if context and context.flow_run:
        history.mark_run(context.flow_run.id, out, context.flow_run.tags)
        history.close_dead_runs(out, context.flow_run.id)


def _run(job: Job, settings: PrepareSettings, scratch: Path) -> dict[str, Any]:
    on_gpu = bool(gpu.stages(job))
    workers = Cluster(settings.cluster, scratch / "workers", on_gpu)
    with Progress() as progress, workers as cluster:
        cluster.subscribe(remote.TOPIC, progress.on_event)
        cluster.forward_logging()
        return line(job, OnCluster(cluster, settings.cluster), progress)


def line(job: Job, caller: OnCluster, progress: Progress) -> dict[str, Any]:
    """The whole line on a cluster, within a flow run; what `run --json` prints, but for time."""
    totals = Totals()
    assert job.scratch is not None
    pipeline.prepare_retry(job)
    for attempt in range(pipeline.REPAIRS):
        progress.start("shard", 0.0)
        found: Sharded = value(prefect_tasks.shard(job, caller, job.scratch / "listing"))
        totals.add(found.done)
        _show(progress, found)
        for done in _all_chains(job, found, caller, progress):
            totals.add(done)
        progress.start("package", found.done.seconds)
        try:
            published: Published = value(prefect_tasks.package(job, sorted(found.shards), caller))
            break
        except CorruptManifest as fault:
            if attempt == pipeline.REPAIRS - 1:
                raise
            log.warning("%s; the shard runs again", fault)
    totals.add(published.done)
    packaged = published.summary["seconds"]["packaged"]
    progress.start("package", packaged)
    progress.advance("package", packaged, reused=not published.new)
    progress.finish("package")
    splits = versions.described(published.path)["splits"]
    return {
        **summary.errors(pq.read_table(published.path / "utterances.parquet")),
        "dataset": str(published.path), "version": int(published.path.name[1:]),
        "new": published.new, **published.summary, "ignored": found.ignored,
        "stages": totals.as_dict(), "package_walls": published.walls,
        "tars": {**published.balance, "written": published.written, "linked": published.linked},
        "splits": {n: {"utterances": s["utterances"], "hours": s["hours"]}
                   for n, s in splits.items()},
        "deaths": vars(caller.guard.tally), "task_runs": totals.calls,
    }  # fmt: skip


def _show(progress: Progress, found: Sharded) -> None:
    """The shard bar is full; the others begin with all audio by header as their total."""
    progress.start("shard", found.done.seconds)
    progress.advance("shard", found.done.seconds, reused=not found.done.ran)
    progress.finish("shard")
    for stage in prefect_tasks.PER_SHARD:
        progress.start(stage, found.done.seconds)


def _all_chains(job: Job, found: Sharded, caller: OnCluster, progress: Progress) -> list[Done]:
    """Every shard's chain; beyond 100 shards in child flow runs, of which two overlap."""
    chain = partial(_chain, job, found.seconds, caller, progress)
    width = caller.cluster.size + 1  # of both kinds; one more, so that none waits for a guard
    groups = [found.shards[i : i + SHARDS_PER_FLOW]
              for i in range(0, len(found.shards), SHARDS_PER_FLOW)]  # fmt: skip
    if len(groups) <= 1:
        results = map_chains(found.shards, chain, width, caller.guard.cancel)
    else:
        _children.set((chain, width))
        children = map_chains(groups, prepare_shards, 2, caller.guard.cancel)
        results = [done for child in children for done in child]
    for stage in prefect_tasks.PER_SHARD:
        progress.finish(stage)
    return [done for dones in results for done in dones]


# What a child flow does with its shards; no parameter, because those go to Prefect's database.
_children: ContextVar[tuple[Callable[[str], list[Done]], int]] = ContextVar("children")


@flow(name="prepare shards", persist_result=False)
def prepare_shards(shards: list[str]) -> list[list[Done]]:
    """A child of `prepare` for at most 100 shards, on the same cluster."""
    chain, width = _children.get()
    return map_chains(shards, chain, width)


def _chain(
    job: Job, seconds: dict[str, float], caller: OnCluster, progress: Progress, shard: str
) -> list[Done]:
    """filter, resample and transcribe one shard; its three task runs stand in the history."""
    audio = seconds[shard]

    def step(stage: str, sure: bool) -> Done:
        label = f"{stage} · {shard.replace('shard-', 'shard ')} · {audio / 3600:.2f} h"
        done: Done = value(prefect_tasks.PER_SHARD[stage](job, shard, audio, caller, label, sure))
        if not done.ran:
            progress.advance(stage, audio, reused=True)
        return done

    return pipeline.run_chain(step)
