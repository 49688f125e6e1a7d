"""How the pipeline's calls get to the workers: `OnCluster` is its Caller, under guards, for as long
as a flow has it `opened`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from flows.cluster import deadlines, remote
from flows.cluster.cluster import Cluster, ClusterSettings
from flows.cluster.fleet import CPU, GPU
from flows.cluster.guard import Guard, map_chains
from flows.run import dask_report
from flows.run.metrics import Metrics
from flows.run.progress import Progress
from tasks import storage
from tasks.accounting.metrics import Place, Trace
from tasks.job import Done, Job
from tasks.plugins import gpu
from tasks.stages.gauge import Gauge

#: What the pipeline's other calls are a part of, by module and name.
STEPS = {
    "tasks.shard.probe": ("shard", "probe"), "tasks.package.gather": ("package", "gather"),
    "tasks.packaging.shard_decisions.save": ("package", "decide"),
    "tasks.packaging.shards.write": ("package", "write"),
    "tasks.packaging.shards.check": ("package", "check"),
    "tasks.estimating.trial.plan": ("package", "plan"),
}  # fmt: skip


@contextmanager
def opened(
    job: Job, settings: ClusterSettings, metrics: Metrics, folder: Path
) -> Iterator[tuple[OnCluster, Progress]]:
    """The cluster of a run, which lies in `folder`, and its progress bars."""
    assert job.scratch is not None
    # Workers that others start see a folder, or they have the store's account.
    common = None if storage.of(job.out).remote else folder
    workers = Cluster(settings, job.scratch / "workers", bool(gpu.stages(job)), common)
    with Progress() as progress, workers as cluster:
        cluster.subscribe(remote.TOPIC, progress.on_event)
        cluster.forward_logging()
        with dask_report.recorded(cluster, folder):
            yield OnCluster(cluster, settings, metrics), progress


class OnCluster:
    """Sends work to the cluster; a call that nothing else needs a worker for stays here."""

    def __init__(
        self, cluster: Cluster, settings: ClusterSettings, metrics: Metrics | None = None
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.metrics = metrics if metrics is not None else Metrics()
        self.guard = Guard(cluster, partial(deadlines.of_audio, settings))

    def listing(self, job: Job) -> Path:
        """Folder of the list that workers probe by: workers elsewhere see OUT, and not our disk."""
        assert job.scratch is not None
        if self.settings.kind == "local":
            return job.scratch / "listing"
        return job.out / "manifests" / ".listing" / job.scratch.name

    def call(self, work: Callable[..., Any], *args: Any) -> Any:
        # A run with nothing to do starts no worker.
        if self.cluster.started:
            return self._on_worker(work, args)
        with Gauge() as gauge:
            result = work(*args)
        self.metrics.call(place_of(work, args, ""), Trace(gauge.cost.started, 1), gauge.cost)
        return result

    def kind(self, name: str, job: Job) -> str:
        """Kind of worker for a stage: one that wants a GPU goes to whoever is there where no
        worker has one."""
        return GPU if GPU in self.cluster.kinds and name in gpu.stages(job) else CPU

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        kind = self.kind(name, job)
        place, trace = Place(name, shard=shard, kind=kind), Trace()
        try:
            done: Done = self.guard.run(
                remote.work, name, job, shard, seconds_of_audio=seconds,
                name=f"{name} of {shard}", kind=kind, trace=trace,
            )  # fmt: skip
        except Exception as error:
            self.metrics.failed(place, trace, error)
            raise
        self.metrics.stage(place, trace, done)
        return done

    def map(self, work: Callable[..., Any], args: Sequence[tuple[Any, ...]]) -> list[Any]:
        call = partial(self._on_worker, work)
        return map_chains(args, call, self.cluster.count(CPU), self.guard.cancel)

    def _on_worker(self, work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        place, trace = place_of(work, args, CPU), Trace()
        try:
            result, cost = self.guard.run(
                remote.call, work, *args,
                within=partial(deadlines.of_call, self.settings, place.step, args),
                isolate_kw="isolate" if "isolate" in signature(work).parameters else None,
                name=work.__name__, trace=trace,
            )  # fmt: skip
        except Exception as error:
            self.metrics.failed(place, trace, error)
            raise
        self.metrics.call(place, trace, cost)
        return result


def place_of(work: Callable[..., Any], args: tuple[Any, ...], kind: str) -> Place:
    """What a call that is no stage is a part of, for metrics and its deadline."""
    stage, step = STEPS.get(f"{work.__module__}.{work.__name__}", ("", work.__name__))
    return Place(stage, step, "-".join(str(n) for n in args if type(n) is int), kind)
