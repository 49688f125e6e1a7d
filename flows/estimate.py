"""The flow `estimate`: runs the real tasks on a stratified sample and forecasts a whole run.

Results for the sample are committed where a run looks for them, so a later run reuses them and
publishes the same bytes. The estimate itself publishes nothing.
"""

# No postponed annotations here, for the reason given in flows/prepare.py.

import json
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

import pyarrow.compute as pc
from prefect import flow
from pydantic import Field

from flows import prepare
from flows.cluster.cluster import ClusterSettings
from flows.progress import Progress
from flows.run import disk, metrics, runs
from flows.run.caller import ClusterCaller, opened
from flows.server import artifacts, posting
from flows.settings import PrepareSettings, check
from tasks import masking, package, pipeline, storage
from tasks.callers import Observer
from tasks.dataset import versions
from tasks.estimating import forecast, sample, trial
from tasks.estimating.forecast import Costs, Forecast, Sizes
from tasks.estimating.sample import Member
from tasks.job import Done, Job, Spent
from tasks.settings import (
    FilterSettings,
    PackageSettings,
    ResampleSettings,
    ShardSettings,
    Source,
    TranscribeSettings,
)
from tasks.stages.stage import PER_SHARD
from tasks.storage import lock, write_atomic

log = logging.getLogger("uttermill")

FRACTION, LEAST = 0.005, 50  # of the recordings; recordings


@flow(
    name="estimate",
    flow_run_name="estimate {out}",
    persist_result=False,
    on_failure=[posting.summarise],
    on_crashed=[posting.summarise],
    on_cancellation=[posting.summarise],
)
def estimate(
    sources: list[Source],
    out: str,
    shard: ShardSettings = ShardSettings(),  # noqa: B008 - frozen
    filter: FilterSettings = FilterSettings(),  # noqa: B008
    resample: ResampleSettings = ResampleSettings(),  # noqa: B008
    transcribe: TranscribeSettings = TranscribeSettings(),  # noqa: B008
    package: PackageSettings = PackageSettings(),  # noqa: B008
    cluster: ClusterSettings = ClusterSettings(),  # noqa: B008
    fraction: Annotated[float, Field(gt=0, le=1)] = FRACTION,
    least: Annotated[int, Field(ge=1)] = LEAST,
) -> dict[str, Any]:
    """Forecast the hours kept, the time and the disk of a run with these settings, from a sample.

    A later run reuses the results for the sample; nothing is published.

    Args:
        sources: Where recordings come from.
        out: Folder for manifests and audio; estimates are written to its `runs`.
        shard: How recordings are grouped into the units of work and of retry.
        filter: How recordings are cut, what is measured, and which limits hold.
        resample: Target rate, channels and levels.
        transcribe: The recogniser, and which texts are good.
        package: What would be published, and in which formats.
        cluster: The workers that do the work, and that the forecast is for.
        fraction: Share of the recordings to sample.
        least: Minimum number of recordings to sample.
    """
    settings = PrepareSettings(
        sources=tuple(sources),
        out=out,
        shard=shard,
        filter=filter,
        resample=resample,
        transcribe=transcribe,
        package=package,
        cluster=cluster,
    )
    began = time.monotonic()
    job = check(settings)
    with lock.hold(job.out):
        prepare.record(job.out)
        with (
            runs.record(job.out, settings, "estimate-settings.json") as run,
            runs.scratch() as scratch,
            metrics.recorded(run.folder) as measured,
        ):
            own = replace(job, scratch=scratch)
            with opened(own, settings.cluster, measured, run.folder) as (caller, progress):
                result, costs = line(own, caller, progress, fraction, least)
            result["run"] = run.folder.name
            result["wall_spent_seconds"] = round(time.monotonic() - began, 3)
            _keep(job, run.folder, result, costs)
            result["estimate"] = str(run.place / disk.NAME)
            posting.note(artifacts.forecast(result))
    return result


def line(
    job: Job, caller: ClusterCaller, progress: Progress, fraction: float, least: int
) -> tuple[dict[str, Any], Costs]:
    """Run the sample on a cluster, within a flow run; returns the forecast and its costs."""
    observer = prepare.TaskRuns(caller, progress)
    found = pipeline.sharded(job, caller, observer)
    members, failed = trial.frame(job.out, found.shards)
    wanted = sample.size(len(members), fraction, least)
    drawn = sample.draw(members, wanted, job.package.seed)
    chosen = [m for some in drawn.values() for m in some]
    dones = _sampled(job, chosen, caller, observer)
    seen = trial.known(job, found.shards)
    costs = _costs(job, dones, caller)
    sizes = _packaged(job, members, chosen, seen, caller, costs)
    found.index.refresh()
    found.index.note_files()
    held = sample.strata(members, wanted)
    told = Forecast(held, drawn, seen, costs, sizes).as_dict()
    tasks_run = 1 + sum(len(each) for each in dones)
    flat = [done for each in dones for done in each]
    sampled = {
        "recordings": len(chosen),
        "of": len(members),
        "unreadable": failed,
        "hours": round(sum(m.seconds for m in chosen) / 3600, 6),
        "strata": len(held),
        "items_computed": {
            stage: sum(d.computed for d in flat if d.stage == stage) for stage in PER_SHARD
        },
        **trial.told(seen[m.recording] for m in chosen if m.recording in seen),
    }
    result = {
        "sample": sampled,
        "peak_memory_bytes": pc.max(caller.metrics.table()["rss_peak"]).as_py(),
        **told,
        "free_bytes": disk.free(job.out),
        "used_bytes": disk.used(job.out),
        "ignored": found.ignored,
        "task_runs": tasks_run,
    }
    return result, costs


def _sampled(
    job: Job, chosen: list[Member], caller: ClusterCaller, observer: Observer
) -> list[list[Done]]:
    """Run the stages of every shard, for its recordings in the sample only."""
    of: dict[str, list[Member]] = {}
    for m in chosen:
        of.setdefault(m.shard, []).append(m)
    seconds = {shard: sum(m.seconds for m in some) for shard, some in of.items()}
    for stage in PER_SHARD:
        observer.start(stage, sum(seconds.values()))

    def chain(shard: str) -> list[Done]:
        only = frozenset(m.recording for m in of[shard])
        return pipeline.chain(replace(job, only=only), shard, seconds[shard], caller, observer, {})

    order = sorted(of, key=lambda shard: (-seconds[shard], shard))
    results = observer.chains(order, chain)
    for stage in PER_SHARD:
        observer.finish(stage)
    return results


def _costs(job: Job, dones: list[list[Done]], caller: ClusterCaller) -> Costs:
    """Costs of the sample: of this run, and of the run that made what is reused."""
    costs = forecast.costs([done for each in dones for done in each])
    costs.lanes = {stage: caller.kind(stage, job) for stage in PER_SHARD}
    costs.workers = {kind: caller.cluster.count(kind) for kind in sorted(set(costs.lanes.values()))}
    first = caller.metrics.first()
    costs.start = first["queue_seconds"] if first else 0.0
    costs.gap = caller.metrics.gap()
    before = (disk.newest(job) or {}).get("costs")
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


def _packaged(
    job: Job,
    members: list[Member],
    chosen: list[Member],
    seen: dict[str, trial.Seen],
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
    rows, part = trial.manifest_bytes(job, shards)
    published = _linked(job)
    formats: dict[str, float] = {}
    try:
        planned = caller.call(trial.plan, only, shards, staging)
        if planned["seconds"]:
            numbers = [(job, staging, number) for number in range(planned["shards"])]
            since = caller.metrics.table().num_rows
            alone = caller.metrics.table()["wall_seconds"][since - 1].as_py()
            kept = sum(seen[m.recording].kept for m in chosen if m.recording in seen)
            costs.gather = alone / max(kept, planned["seconds"])
            caller.map(package.write, numbers)
            caller.map(package.check, numbers)
            walls = caller.metrics.table().slice(since)["wall_seconds"]
            costs.package = (pc.sum(walls).as_py() or 0.0) / planned["seconds"]
            found = {**trial.bytes_of(staging), "tables": planned["tables"]}
            formats = {name: size / planned["seconds"] for name, size in found.items()}
    finally:
        storage.of(staging).clear(staging)
    return Sizes(rows / (audio or 1.0), part, formats, published)


def _linked(job: Job) -> float:
    """Seconds of audio whose files a new version links from the newest one.

    0 when the newest version lacks a format: that format is then written whole.
    """
    newest = versions.newest(job.out)
    described = versions.described(newest) if newest else {}
    if not {plugin.use for plugin in job.package.formats} <= set(described.get("formats", ())):
        return 0.0
    return float(described["seconds"]["packaged"])


def _keep(job: Job, folder: Path, result: dict[str, Any], costs: Costs) -> None:
    """Write the estimate into the run's folder, with the costs of its sample for later runs."""
    result["fits"] = disk.lacking(result, job.out) is None
    laps = {
        stage: {recording: [_lap(s) for s in each] for recording, each in found.items()}
        for stage, found in costs.laps.items()
    }
    kept = {
        "laps": laps,
        "overhead": costs.overhead,
        "load": costs.load,
        "start": costs.start,
        "gap": costs.gap,
    }
    whole = {"key": disk.key(job), **result, "costs": kept}
    write_atomic(folder / disk.NAME, json.dumps(masking.value(whole), indent=1).encode())


def _lap(spent: Spent) -> dict[str, Any]:
    return {
        "recording": spent.recording,
        "audio": spent.audio,
        "wall": spent.wall,
        "cpu": spent.cpu,
        "cold": spent.cold,
    }
