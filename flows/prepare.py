"""The flow: shard; then filter, resample and transcribe for each shard on its own; then package.

Wiring only. The flow's parameters are the stages' settings. What is done is recorded in Parquet
manifests, so a rerun from the UI, a schedule and a local run all resume alike.
"""

# No postponed annotations here: `prepare.serve` loads this file by its path, so Prefect could not
# look up the types of the parameters, and every flow run would fail.

import logging
import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import replace
from pathlib import Path
from typing import Any

from prefect import flow
from prefect.context import FlowRunContext

from flows.cluster.chains import map_chains
from flows.cluster.cluster import ClusterSettings
from flows.progress import Progress
from flows.run import disk, items, metrics, report, runs
from flows.run.caller import ClusterCaller, opened
from flows.server import api, history, posting
from flows.settings import PrepareSettings, check
from tasks import pipeline, prefect_tasks
from tasks.accounting import summary
from tasks.callers import Chain, Step
from tasks.dataset import reader_drops, versions
from tasks.errors import MillError
from tasks.job import Done, Job
from tasks.results import Published, Sharded
from tasks.settings import (
    FilterSettings,
    PackageSettings,
    ResampleSettings,
    ShardSettings,
    Source,
    TranscribeSettings,
)
from tasks.storage import lock, tables

log = logging.getLogger("uttermill")

SHARDS_PER_FLOW = 100  # three task runs each: Prefect's server records some 300 a flow run well


@flow(
    name="prepare",
    flow_run_name="prepare {out}",
    persist_result=False,
    on_failure=[posting.summarise],
    on_crashed=[posting.summarise],
    on_cancellation=[posting.summarise],
)
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

    Safe to run again at any time: finished work is reused, missing work is done.

    Args:
        sources: Where recordings come from.
        out: Folder, or URL, for manifests, audio and datasets.
        shard: How recordings are grouped into the units of work and of retry.
        filter: How recordings are cut, what is measured, and which limits hold.
        resample: Target rate, channels and levels.
        transcribe: The recogniser, and which texts are good.
        package: What is published, in which formats and splits, and when it is refused.
        cluster: The workers: where, how many, within which limits.
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
    disk.check(job, settings.cluster)
    with lock.hold(job.out):
        record(job.out)
        with (
            runs.record(job.out, settings) as run,
            runs.scratch() as scratch,
            posting.LiveArtifact(job.out) as live,
        ):
            with metrics.recorded(run.folder) as measured:
                own = replace(job, scratch=scratch)
                with opened(own, settings.cluster, measured, run.folder) as (caller, progress):
                    live.watch(progress)
                    result = line(own, caller, progress, run.folder)
            result["stragglers"] = measured.stragglers()
            result["wall_seconds"] = round(time.monotonic() - began, 3)
            run.finish(result)
            report.of_run(job, run.folder, result["new"])
            live.finish(result, run.place / report.NAME)
    return result


def record(out: Path) -> None:
    """Tag this flow run with its OUT, and close the records of dead runs of the same OUT."""
    context = FlowRunContext.get()
    if context and context.flow_run:
        history.mark_run(context.flow_run.id, out, context.flow_run.tags)
        history.close_dead_runs(out, context.flow_run.id)


def line(job: Job, caller: ClusterCaller, progress: Progress, folder: Path) -> dict[str, Any]:
    """Run all stages on a cluster, within a flow run.

    Returns what `run --json` prints, without the times. Files that the sources left aside are
    listed in `folder`, the run's folder.
    """
    ended = pipeline.run(job, caller, TaskRuns(caller, progress, folder))
    found, published, totals = ended.sharded, ended.published, ended.totals
    return {
        **_read_back(job, published),
        "dataset": str(published.path),
        "version": int(published.path.name[1:]),
        "new": published.new,
        **published.summary,
        "ignored": found.ignored,
        "stages": totals.as_dict(),
        "package_walls": published.walls,
        "tars": {**published.balance, "written": published.written, "linked": published.linked},
        "deaths": vars(caller.dispatcher.losses),
        "task_runs": totals.task_runs,
    }


def _read_back(job: Job, published: Published) -> dict[str, Any]:
    """Error rates, splits, and utterances that readers would drop, from the published version.

    When nothing is new and the store cannot be reached by now, the run still succeeds without.
    """
    try:
        splits = versions.described(published.path)["splits"]
        rates = summary.errors(tables.read(published.path / "utterances.parquet"))
        drops = reader_drops.of_version(published.path, job.package.formats, job.filter.segmenter)
    except (MillError, OSError) as error:
        if published.new:
            raise
        log.warning("the error rates of %s are not known: %s", published.path, error)
        return {"scored": 0, "wer": None, "cer": None, "splits": {}, "reader_drops": []}
    told = {n: {"utterances": s["utterances"], "hours": s["hours"]} for n, s in splits.items()}
    return {**rates, "splits": told, "reader_drops": drops}


class TaskRuns:
    """The observer of a flow run: its steps are Prefect task runs, and move the progress bars.

    Files that the sources left aside are listed in `folder`, if it is given.
    """

    # Nobody reads 30,000 task runs that say "Reused", and each costs 25 ms of CPU.
    most_shards = SHARDS_PER_FLOW

    def __init__(
        self, caller: ClusterCaller, progress: Progress, folder: Path | None = None
    ) -> None:
        self.caller, self.folder = caller, folder
        self.start, self.advance, self.finish = progress.start, progress.advance, progress.finish

    def step(
        self, name: str, work: Callable[[], Step], shard: str = "", seconds: float = 0.0
    ) -> Step:
        label = name
        if shard:
            label += f" · {shard.replace('shard-', 'shard ')} · {seconds / 3600:.2f} h"
        return prefect_tasks.run(name, label, work)

    def chains(self, shards: list[str], chain: Chain) -> list[list[Done]]:
        return over_shards(shards, chain, self.caller)

    def sharded(self, found: Sharded) -> None:
        if self.folder is not None:
            items.write_left_aside(self.folder, found.left)


def over_shards(shards: list[str], chain: Chain, caller: ClusterCaller) -> list[list[Done]]:
    """Run a chain for each shard; more than 100 shards run in child flow runs, two at a time."""
    dispatcher = caller.dispatcher
    groups = [shards[i : i + SHARDS_PER_FLOW] for i in range(0, len(shards), SHARDS_PER_FLOW)]
    if len(groups) <= 1:
        return map_chains(shards, chain, caller.width, dispatcher.cancel, dispatcher.drain)
    finished: dict[str, list[Done]] = {}

    def once(shard: str) -> list[Done]:
        """A child flow run that is tried again passes over what the former try finished."""
        if shard not in finished:
            finished[shard] = chain(shard)
        return finished[shard]

    def child(group: list[str]) -> list[list[Done]]:
        return api.with_retries(lambda: prepare_shards(group), "a child flow run", dispatcher.sleep)

    _children.set((once, caller.width, dispatcher.drain))
    children = map_chains(groups, child, 2, dispatcher.cancel)
    return [done for results in children for done in results]


# What a child flow runs for its shards. Not a parameter: parameters go to Prefect's database.
_children: ContextVar[tuple[Chain, Callable[[], int], Callable[[], None]]] = ContextVar("children")


@flow(name="prepare shards", persist_result=False)
def prepare_shards(shards: list[str]) -> list[list[Done]]:
    """A child of `prepare` for at most 100 shards, on the same cluster."""
    chain, width, drain = _children.get()
    return map_chains(shards, chain, width, drain=drain)
