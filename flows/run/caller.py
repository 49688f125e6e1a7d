"""Sends the pipeline's calls to the cluster of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any

from flows.cluster import worker
from flows.cluster.chains import map_chains
from flows.cluster.cluster import Cluster, ClusterSettings
from flows.cluster.dispatcher import Dispatcher
from flows.cluster.fleet import CPU, GPU
from flows.run import dask_report
from flows.run.metrics import Metrics
from flows.run.progress import Progress
from tasks import storage
from tasks.accounting.metrics import Place, Trace
from tasks.job import Done, Job
from tasks.plugins import gpu
from tasks.stages.gauge import Gauge

HOUR = 3600.0
ISOLATED_FACTOR = 100  # longer deadline of a call whose items run one by one
#: Stage and step of the pipeline's other calls, by module and name.
STEPS = {
    "tasks.shard.probe": ("shard", "probe"),
    "tasks.package.gather": ("package", "gather"),
    "tasks.packaging.decided.save": ("package", "decide"),
    "tasks.packaging.shards.write": ("package", "write"),
    "tasks.packaging.shards.check": ("package", "check"),
    "tasks.estimating.trial.plan": ("package", "plan"),
}


@contextmanager
def opened(
    job: Job, settings: ClusterSettings, metrics: Metrics, folder: Path
) -> Iterator[tuple[ClusterCaller, Progress]]:
    """The caller of a run, whose cluster ends with the context, and its progress bars.

    `folder` is the run's folder.
    """
    assert job.scratch is not None
    # Workers that others start must see a folder, unless OUT is in a store they have access to.
    common = None if storage.of(job.out).remote else folder
    workers = Cluster(settings, job.scratch / "workers", bool(gpu.stages(job)), common)
    with Progress() as progress, workers as cluster:
        cluster.subscribe(worker.TOPIC, progress.on_event)
        cluster.forward_logging()
        with dask_report.recorded(cluster, folder):
            yield ClusterCaller(cluster, settings, metrics), progress


class ClusterCaller:
    """`tasks.pipeline.Caller` on a cluster; a call that no worker is running for stays here."""

    def __init__(
        self, cluster: Cluster, settings: ClusterSettings, metrics: Metrics | None = None
    ) -> None:
        self.cluster = cluster
        self.settings = settings
        self.metrics = metrics if metrics is not None else Metrics()
        self.dispatcher = Dispatcher(cluster, self._deadline)

    def _deadline(self, seconds: float, isolated: bool) -> float:
        """Wall seconds that a call may take for so many seconds of audio."""
        shared = self.settings.item_timeout + self.settings.timeout_factor * seconds
        # Each item may then use up a time-out of its own, which the isolation enforces.
        return shared * ISOLATED_FACTOR if isolated else shared

    def listing(self, job: Job) -> Path:
        """Folder for the list of recordings to probe: other machines see OUT, not this disk."""
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
        self.metrics.call(_place(work, args, ""), Trace(gauge.cost.started, 1), gauge.cost)
        return result

    def kind(self, name: str, job: Job) -> str:
        """Kind of worker for a stage: any worker where none has a GPU."""
        return GPU if GPU in self.cluster.kinds and name in gpu.stages(job) else CPU

    def width(self) -> int:
        """Shards to have in hand: one per worker, and as many that wait, so that the last round
        is not one long stage beside idle workers."""
        return 2 * self.cluster.size

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        kind = self.kind(name, job)
        place, trace = Place(name, shard=shard, kind=kind), Trace()
        try:
            done: Done = self.dispatcher.run(
                worker.run_stage,
                name,
                job,
                shard,
                seconds_of_audio=seconds,
                name=f"{name} of {shard}",
                kind=kind,
                trace=trace,
            )
        except Exception as error:
            self.metrics.failed(place, trace, error)
            raise
        self.metrics.stage(place, trace, done)
        return done

    def map(self, work: Callable[..., Any], args: Sequence[tuple[Any, ...]]) -> list[Any]:
        call = partial(self._on_worker, work)
        width = partial(self.cluster.count, CPU)
        return map_chains(args, call, width, self.dispatcher.cancel)

    def _on_worker(self, work: Callable[..., Any], args: tuple[Any, ...]) -> Any:
        place, trace = _place(work, args, CPU), Trace()
        try:
            result, cost = self.dispatcher.run(
                worker.run_call,
                work,
                *args,
                seconds_of_audio=audio_of(work, args),
                isolate_kw="isolate" if "isolate" in signature(work).parameters else None,
                name=work.__name__,
                trace=trace,
            )
        except Exception as error:
            self.metrics.failed(place, trace, error)
            raise
        self.metrics.call(place, trace, cost)
        return result


def audio_of(work: Callable[..., Any], args: tuple[Any, ...]) -> float:
    """Seconds of audio that a call which is no stage handles, for its deadline.

    A probe reads headers and hashes bytes: 0, so that it gets the time of one item, after which
    its recordings are probed one by one.
    """
    stage, step = STEPS.get(f"{work.__module__}.{work.__name__}", ("", ""))
    job = next((arg for arg in args if isinstance(arg, Job)), None)
    if step == "probe":
        return 0.0
    if stage == "package" and step in ("write", "check") and job is not None:
        return job.package.tar_hours * HOUR
    return HOUR  # it handles tables of many recordings, and opens no recording


def _place(work: Callable[..., Any], args: tuple[Any, ...], kind: str) -> Place:
    stage, step = STEPS.get(f"{work.__module__}.{work.__name__}", ("", work.__name__))
    return Place(stage, step, "-".join(str(n) for n in args if type(n) is int), kind)
