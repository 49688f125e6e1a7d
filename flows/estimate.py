"""The flow `estimate`: runs the real tasks on a stratified sample and forecasts a whole run.

Results for the sample are committed as a run's are, so a later run reuses them and publishes the
same bytes. The estimate itself publishes nothing.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from itertools import chain
from typing import Any

import pyarrow.compute as pc
from prefect import flow

from ..tasks import pipeline, storage
from ..tasks.accounting import metrics
from ..tasks.base.json_types import JsonObject
from ..tasks.insight.estimating import forecast, sample
from ..tasks.insight.estimating.forecast import Costs, Forecast, Sizes
from ..tasks.insight.estimating.sample import Member
from ..tasks.plugins import trusted
from ..tasks.runs.executor import Executor, Observer
from ..tasks.runs.publish import WRITE
from ..tasks.settings.job import Done, Job, Spent
from ..tasks.stages.call import Call, of_shards
from ..tasks.stages.stage import PER_SHARD
from ..tasks.storage import lock, versions
from . import prepare
from .checks import check
from .cluster import worker_counts
from .flow_parameters import among, takes
from .run import estimates, run_folder
from .run.cluster_executor import ClusterExecutor, cluster_of, opened
from .run.task_run_groups import TaskRunObserver
from .server import artifacts
from .settings import PrepareSettings, SampleSettings

AT_ONCE = 16  # shards whose results one call returns


@flow(name="estimate", persist_result=False, **artifacts.SUMMARISED)
@takes(
    PrepareSettings,
    SampleSettings,
    out="Folder for manifests and audio; estimates are written to its `runs`.",
    package="What would be published, and in which formats.",
    cluster="The workers that do the work, and that the forecast is for.",
    history="Where `uttermill estimate` records itself in Prefect; with `none`, as with `own`.",
)
def estimate(**parameters: Any) -> JsonObject:
    """Forecast the hours kept, the time and the disk of a run with these settings, from a sample.

    A later run reuses the results for the sample; nothing is published.
    """
    settings, wanted = among(PrepareSettings, parameters), among(SampleSettings, parameters)
    began = time.monotonic()
    trusted.trust(settings.model_dump(mode="json"))
    job = check(settings)
    with (
        lock.hold(job.out),
        run_folder.record(job.out, settings, run_folder.ESTIMATE_SETTINGS) as run,
        run_folder.scratch() as scratch,
        metrics.recorded(run.folder) as measured,
    ):
        versions.begin_layout(job.out, versions.next_number(job.out) - 1)
        prepare.record(job, "estimate", run.place)
        placed = run_folder.placed(job, scratch, settings.cluster.kind == "local")
        threaded = worker_counts.with_threads(placed, settings.cluster)
        observer = TaskRunObserver(threaded)
        cluster = cluster_of(threaded, settings.cluster, run.folder)
        with opened(cluster, measured, run.folder, observer) as executor:
            result, costs = run_sample(threaded, executor, observer, wanted)
            result["run"] = run.folder.name
            result["wall_spent_seconds"] = round(time.monotonic() - began, 3)
            estimates.keep(job, run.folder, result, costs)
            result["estimate"] = str(run.place / estimates.NAME)
            observer.text = artifacts.forecast(result)
    return result


def run_sample(
    job: Job, executor: ClusterExecutor, observer: TaskRunObserver, wanted: SampleSettings
) -> tuple[JsonObject, Costs]:
    sharded = pipeline.sharded(job, executor, observer)
    members, failed = sample.frame(job.out, sharded.shards)
    count = sample.size(len(members), wanted.fraction, wanted.least)
    drawn = sample.draw(members, count, job.package.seed)
    chosen = [m for stratum in drawn.values() for m in stratum]
    dones = _sampled(job, chosen, executor, observer)
    seen = known_results(job, sharded.shards, chosen, executor)
    costs = costs_of(job, dones, executor)
    sizes = packaged(job, members, chosen, seen, executor, costs)
    sharded.index.refresh()
    sharded.index.note_files()
    strata = sample.strata(members, count)
    forecast = Forecast(strata, drawn, seen, costs, sizes).as_dict()
    sampled = {
        "recordings": len(chosen),
        "of": len(members),
        "unreadable": failed,
        "hours": round(sum(m.seconds for m in chosen) / 3600, 6),
        "strata": len(strata),
        "items_computed": {
            stage: sum(d.computed for d in dones if d.stage == stage) for stage in PER_SHARD
        },
        **sample.results_of(seen[m.recording] for m in chosen if m.recording in seen),
    }
    result = {
        "sample": sampled,
        "peak_memory_bytes": pc.max(executor.metrics.table()["rss_peak"]).as_py(),
        **forecast,
        "free_bytes": storage.store_of(job.out).free(job.out),
        "used_bytes": estimates.bytes_used(job.out),
        "ignored": sharded.ignored,
        "task_runs": observer.task_runs,
    }
    return result, costs


def known_results(
    job: Job, shards: Sequence[str], chosen: list[Member], executor: Executor
) -> dict[str, sample.SampleResult]:
    shards, sampled = sorted(shards), _by_shard(chosen)  # in the order of shard batches
    calls = []
    for low in range(0, len(shards), AT_ONCE):
        asked = shards[low : low + AT_ONCE]
        names = frozenset(m.recording for shard in asked for m in sampled[shard])
        calls.append((job, asked, names))
    reading = Call("package", "known", sample.known, partial(of_shards, AT_ONCE))
    return dict(chain.from_iterable(seen.items() for seen in executor.map(reading, calls)))


def _by_shard(members: list[Member]) -> defaultdict[str, list[Member]]:
    by_shard = defaultdict[str, list[Member]](list)
    for m in members:
        by_shard[m.shard].append(m)
    return by_shard


def _sampled(
    job: Job, chosen: list[Member], executor: ClusterExecutor, observer: Observer
) -> list[Done]:
    """Run the stages of every shard, for its recordings in the sample only."""
    sampled = _by_shard(chosen)
    seconds = {shard: sum(m.seconds for m in members) for shard, members in sampled.items()}
    for stage in PER_SHARD:
        observer.start(stage, sum(seconds.values()))

    def chain_of(shard: str) -> list[Done]:
        only = frozenset(m.recording for m in sampled[shard])
        return pipeline.chain(replace(job, only=only), shard, seconds[shard], executor, observer)

    order = sorted(sampled, key=lambda shard: (-seconds[shard], shard))
    with observer.chains({shard: seconds[shard] for shard in order}) as begun:
        results = executor.chains(begun, chain_of)
    for stage in PER_SHARD:
        observer.finish(stage)
    return [*chain.from_iterable(results)]


def costs_of(job: Job, dones: list[Done], executor: ClusterExecutor) -> Costs:
    """Costs of the sample: of this run, and of earlier runs whose results are reused."""
    costs = forecast.costs(dones)
    costs.kinds = {stage: executor.kind(stage, job) for stage in PER_SHARD}
    kinds = sorted(set(costs.kinds.values()))
    costs.workers = {kind: executor.cluster.count(kind) for kind in kinds}
    first = executor.metrics.first()
    costs.start = first["queue_seconds"] if first else 0.0
    costs.gap = executor.metrics.gap()
    if before := (estimates.newest(job) or {}).get("costs"):
        for stage, laps in before["laps"].items():
            stage_laps = costs.laps.setdefault(stage, {})
            for recording, recording_laps in laps.items():
                stage_laps.setdefault(recording, [Spent(**lap) for lap in recording_laps])
        costs.overhead = {**before["overhead"], **costs.overhead}
        costs.load = costs.load or before["load"]
        costs.start = costs.start or before["start"]
        costs.gap = costs.gap or before["gap"]
    return costs


def packaged(
    job: Job,
    members: list[Member],
    chosen: list[Member],
    seen: dict[str, sample.SampleResult],
    executor: ClusterExecutor,
    costs: Costs,
) -> Sizes:
    """Write and check the tars of the sample, to measure their bytes and time."""
    sampled = {m.shard for m in chosen}
    shards = sorted(sampled)
    audio = sum(m.seconds for m in members if m.shard in sampled and m.recording in seen)
    only = replace(job, only=frozenset(m.recording for m in chosen))
    staging = job.listing.with_name(f"{job.listing.name}-trial")
    rows, part = sample.manifest_bytes(job, shards)
    published = linked(job)
    formats: dict[str, float] = {}
    planning = Call("package", "plan", sample.plan, partial(of_shards, len(shards)))
    try:
        planned = executor.call(planning, only, shards, staging)
        if planned["seconds"]:
            numbers = [(job, staging, number) for number in planned["shards"]]
            since = executor.metrics.table().num_rows
            alone = executor.metrics.table()["wall_seconds"][since - 1].as_py()
            kept = sum(seen[m.recording].kept for m in chosen if m.recording in seen)
            costs.gather = alone / max(kept, planned["seconds"])
            executor.map(WRITE, numbers)
            walls = executor.metrics.table().slice(since)["wall_seconds"]
            costs.package = (pc.sum(walls).as_py() or 0.0) / planned["seconds"]
            sizes = {**sample.bytes_of(staging), "tables": planned["tables"]}
            formats = {name: size / planned["seconds"] for name, size in sizes.items()}
    finally:
        storage.store_of(staging).clear(staging)
    return Sizes(rows / (audio or 1.0), part, formats, published)


def linked(job: Job) -> float:
    """Seconds of audio whose files a new version links from the newest one; none if that lacks a
    format, which is then written whole."""
    newest = versions.newest(job.out)
    if newest is None:
        return 0.0
    described = versions.described(newest)
    if not {plugin.use for plugin in job.package.formats} <= described["formats"].keys():
        return 0.0
    return float(described["seconds"]["packaged"])
