"""What an estimate's sample cost: times of its calls, and the bytes and time of its tars."""

from __future__ import annotations

from dataclasses import replace

import pyarrow.compute as pc

from flows.run import estimates
from flows.run.cluster_executor import ClusterCaller
from tasks import storage
from tasks.insight.estimating import forecast, sample_results
from tasks.insight.estimating.forecast import Costs, Sizes
from tasks.insight.estimating.sample import Member
from tasks.publish.writing import shards as output_shards
from tasks.settings.job import Done, Job, Spent
from tasks.stages.stage import PER_SHARD
from tasks.storage import versions


def of(job: Job, dones: list[Done], caller: ClusterCaller) -> Costs:
    """Costs of the sample: of this run, and of earlier runs whose results are reused."""
    costs = forecast.costs(dones)
    costs.kinds = {stage: caller.kind(stage, job) for stage in PER_SHARD}
    costs.workers = {kind: caller.cluster.count(kind) for kind in sorted(set(costs.kinds.values()))}
    first = caller.metrics.first()
    costs.start = first["queue_seconds"] if first else 0.0
    costs.gap = caller.metrics.gap()
    before = (estimates.newest(job) or {}).get("costs")
    if before:
        for stage, laps in before["laps"].items():
            known = costs.laps.setdefault(stage, {})
            for recording, each in laps.items():
                known.setdefault(recording, [Spent(**lap) for lap in each])
        costs.overhead = {**before["overhead"], **costs.overhead}
        costs.load = costs.load or before["load"]
        costs.start = costs.start or before["start"]
        costs.gap = costs.gap or before["gap"]
    return costs


def packaged(
    job: Job,
    members: list[Member],
    chosen: list[Member],
    seen: dict[str, sample_results.SampleResult],
    caller: ClusterCaller,
    costs: Costs,
) -> Sizes:
    """Write and check the tars of the sample, to measure their bytes and time."""
    sampled = {m.shard for m in chosen}
    shards = sorted(sampled)
    audio = sum(m.seconds for m in members if m.shard in sampled and m.recording in seen)
    only = replace(job, only=frozenset(m.recording for m in chosen))
    home = caller.listing(job)
    staging = home.with_name(f"{home.name}-trial")
    rows, part = sample_results.manifest_bytes(job, shards)
    published = linked(job)
    formats: dict[str, float] = {}
    try:
        planned = caller.call(sample_results.plan, only, shards, staging)
        if planned["seconds"]:
            numbers = [(job, staging, number) for number in planned["shards"]]
            since = caller.metrics.table().num_rows
            alone = caller.metrics.table()["wall_seconds"][since - 1].as_py()
            kept = sum(seen[m.recording].kept for m in chosen if m.recording in seen)
            costs.gather = alone / max(kept, planned["seconds"])
            caller.map(output_shards.write, numbers)
            caller.map(output_shards.check, numbers)
            walls = caller.metrics.table().slice(since)["wall_seconds"]
            costs.package = (pc.sum(walls).as_py() or 0.0) / planned["seconds"]
            found = {**sample_results.bytes_of(staging), "tables": planned["tables"]}
            formats = {name: size / planned["seconds"] for name, size in found.items()}
    finally:
        storage.of(staging).clear(staging)
    return Sizes(rows / (audio or 1.0), part, formats, published)


def linked(job: Job) -> float:
    """Seconds of audio whose files a new version links from the newest one.

    0 when the newest version lacks a format: that format is then written whole.
    """
    newest = versions.newest(job.out)
    described = versions.described(newest) if newest else {}
    if not {plugin.use for plugin in job.package.formats} <= set(described.get("formats", ())):
        return 0.0
    return float(described["seconds"]["packaged"])
