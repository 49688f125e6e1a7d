"""The flow `prepare`: shard; then filter, resample and transcribe for each shard; then package.

Wiring only. The flow's parameters are the stages' settings. Parquet manifests record finished work,
so a rerun from the UI, a schedule and a local run all resume alike.
"""

# No postponed annotations here: `prepare.serve` loads this file by its path, so Prefect could not
# look up the types of the parameters, and every flow run would fail.

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from datetime import datetime
from math import ceil
from pathlib import Path

from prefect import flow

from flows.cluster.settings import ClusterSettings
from flows.cluster.thread_pool import map_chains
from flows.progress import Progress
from flows.run import execute, run_folder, task_run_groups
from flows.run.cluster_executor import ClusterCaller, Shown
from flows.run.task_run_groups import Groups
from flows.server import client, live_artifacts, rate_warning, run_names
from flows.server import history as records
from flows.settings import History, PrepareSettings
from tasks import plugins, prefect_tasks
from tasks.base.json_types import JsonObject
from tasks.base.logs import log
from tasks.runs.executor import Chain, Step
from tasks.settings import (
    AnySource,
    Diarizer,
    Enhancer,
    FilterSettings,
    PackageSettings,
    Plugin,
    ResampleSettings,
    ShardSettings,
    TranscribeSettings,
)
from tasks.settings.job import Done, Job

SHARDS_PER_FLOW = 100  # three task runs each: Prefect's server records some 300 a flow run well


@flow(
    name="prepare",
    persist_result=False,
    on_failure=[live_artifacts.summarise],
    on_crashed=[live_artifacts.summarise],
    on_cancellation=[live_artifacts.summarise],
)
def prepare(
    sources: list[AnySource],
    out: str,
    speakers: Diarizer = Plugin(use="none"),  # noqa: B008 - frozen
    shard: ShardSettings = ShardSettings(),  # noqa: B008
    filter: FilterSettings = FilterSettings(),  # noqa: B008
    enhance: Enhancer = Plugin(use="none"),  # noqa: B008
    resample: ResampleSettings = ResampleSettings(),  # noqa: B008
    transcribe: TranscribeSettings = TranscribeSettings(),  # noqa: B008
    package: PackageSettings = PackageSettings(),  # noqa: B008
    cluster: ClusterSettings = ClusterSettings(),  # noqa: B008
    history: History = "auto",
) -> JsonObject:
    """Raw recordings in, a verified dataset version out.

    Safe to run again at any time: finished work is reused, missing work is done.

    Args:
        sources: Where recordings come from.
        out: Folder, or URL, for manifests, audio and datasets.
        speakers: Who speaks when in each recording, before it is cut.
        shard: How recordings are grouped into the units of work and of retry.
        filter: How recordings are cut, what is measured, and which limits hold.
        enhance: What takes noise or music out of a clip, before it is resampled.
        resample: Target rate, channels and levels.
        transcribe: The recogniser, and which texts are good.
        package: What is published, in which formats and splits, and when it is refused.
        cluster: The workers: where, how many, within which limits.
        history: Where `uttermill run` records itself; a flow run that Prefect started is recorded
            where Prefect is.
    """
    settings = PrepareSettings.of_flow(locals())
    with execute.opened(settings) as run:
        record(run.job, "prepare", run.run.place)
        with live_artifacts.live(run.job.out) as live:
            result = run.work(TaskRuns, live)
    if execute.current.get() is None:  # else the command waits for Prefect's records first
        run_folder.close_prefect_note(run.run.place)
    return result


def record(job: Job, kind: str, place: Path) -> None:
    """Name this flow run, unless a person did, note it in the run's folder `place`, and close the
    records of dead runs of the same OUT. `kind`: prepare or estimate."""
    if (run := live_artifacts.current_run()) is not None:
        datasets = [dataset.name for dataset in plugins.datasets(job.sources)]
        name = run_names.flow_run(run.name, kind, datasets, datetime.now().astimezone())
        run_folder.write_prefect_note(place, str(run.id), records.owner())
        if name != run.name:
            records.rename(run.id, name)
        records.close_dead_runs(job.out, run.id)


class TaskRuns(Shown):
    """The observer of a flow run: its steps are Prefect task runs, and move the progress bars.

    With many shards, or small ones, a task run stands for a stage of a group of them: see
    `flows.run.task_run_groups`.
    """

    # Nobody reads 30,000 task runs that say "Reused", and each costs 25 ms of CPU.
    most_shards = SHARDS_PER_FLOW

    def __init__(
        self, job: Job, caller: ClusterCaller, progress: Progress, folder: Path | None = None
    ) -> None:
        super().__init__(job, caller, progress, folder)
        self._pace = rate_warning.Pace()
        self._chosen_size = job.shard.hours is not None
        self._groups: Groups | None = None  # while its chains run

    @property
    def task_runs(self) -> int:
        """How many Prefect was told of."""
        return self._pace.count

    def step(
        self, name: str, work: Callable[[], Step], shard: str = "", seconds: float = 0.0
    ) -> Step:
        if shard and self._groups is not None:
            return self._groups.of(shard).step(name, shard, work)
        label = run_names.task_run(name, shard, seconds) if shard else name
        return self._task_run(name, label, work)

    def _task_run(self, name: str, label: str, work: Callable[[], Step]) -> Step:
        if (near := self._pace.begun()) and (said := rate_warning.warning(near)):
            log.warning(said)
        return prefect_tasks.run(name, label, work)

    def chains(self, shards: Mapping[str, float], chain: Chain) -> list[list[Done]]:
        each = task_run_groups.group_size(len(shards), sum(shards.values()), self._chosen_size)
        if each == 1:
            return over_shards(list(shards), chain, self.caller)
        groups = Groups(shards, each, self._task_run)
        log.info("Prefect shows the %d shards in %d groups", len(shards), len(groups.all))
        with live_artifacts.Poster(groups.all), groups:
            self._groups = groups
            try:
                results = self.caller.chains(groups.order, chain)
            finally:
                self._groups = None
        of = dict(zip(groups.order, results, strict=True))
        return [of[shard] for shard in shards]


def over_shards(shards: list[str], chain: Chain, caller: ClusterCaller) -> list[list[Done]]:
    """Run a chain for each shard; more than 100 shards run in child flow runs: two at a time, or
    as many as it takes to keep all workers busy."""
    dispatcher = caller.dispatcher
    groups = [shards[i : i + SHARDS_PER_FLOW] for i in range(0, len(shards), SHARDS_PER_FLOW)]
    if len(groups) <= 1:
        return caller.chains(shards, chain)
    finished: dict[str, list[Done]] = {}

    def once(shard: str) -> list[Done]:
        """A child flow run that is tried again passes over what the former try finished."""
        if shard not in finished:
            finished[shard] = chain(shard)
        return finished[shard]

    def child(group: list[str]) -> list[list[Done]]:
        return client.with_retries(
            lambda: prepare_shards(group), "a child flow run", dispatcher.sleep
        )

    def at_once() -> int:
        return max(2, 1 + ceil(caller.width() / SHARDS_PER_FLOW))

    _children.set((once, caller.width, dispatcher.drain))
    children = map_chains(groups, child, at_once, dispatcher.cancel)
    return [done for results in children for done in results]


# What a child flow runs for its shards. Not a parameter: parameters go to Prefect's database.
_children: ContextVar[tuple[Chain, Callable[[], int], Callable[[], None]]] = ContextVar("children")


@flow(name="prepare shards", persist_result=False)
def prepare_shards(shards: list[str]) -> list[list[Done]]:
    """A child of `prepare` for at most 100 shards, on the same cluster."""
    chain, width, drain = _children.get()
    return map_chains(shards, chain, width, drain=drain)
