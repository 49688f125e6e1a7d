"""Runs the pipeline's calls on the cluster of a run, each within its deadline.

Deadlines are in wall seconds; the worker of a call that misses its own is restarted. A stage of a
shard has `item_timeout`, and `timeout_factor` for each second of its audio.
"""

from __future__ import annotations

import contextvars
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from functools import partial
from inspect import signature
from pathlib import Path
from typing import Any, TypeVar, cast

from ...tasks import storage
from ...tasks.accounting.metrics import Metrics, Place, Trace, place_of, row
from ...tasks.base.logs import log
from ...tasks.plugins import gpu, loading
from ...tasks.runs.executor import Chain, Executor
from ...tasks.settings.job import Cost, Done, Job
from ...tasks.stages.call import Call, CostMeter, Limits, Result
from ..cluster import worker, worker_counts
from ..cluster.calls import Dispatcher, NotBegun, begin_chain
from ..cluster.cluster import Cluster
from ..cluster.settings import ClusterSettings
from ..cluster.worker_counts import CPU, GPU
from ..progress import Progress

MOST_WAITING = 100  # shards in progress beyond one for each worker: each has a thread
DASK_REPORT = "dask-performance.html"
ONE_BY_ONE = 100  # factor for a shard whose items may each use up a time-out of their own


def cluster_of(job: Job, settings: ClusterSettings, folder: Path) -> Cluster:
    """The cluster of a run, not started yet."""
    assert job.scratch is not None
    # Workers that others start must see a folder, unless OUT is in a store they have access to.
    common = storage.store_of(job.out).mounted(folder)
    reached = loading.modules_of(job)
    gpus, needed = bool(gpu.stages(job)), worker_counts.needs(job)
    return Cluster(settings, job.scratch / "workers", gpus, common, reached, needed, job)


@contextmanager
def opened(
    cluster: Cluster, metrics: Metrics, folder: Path, progress: Progress
) -> Iterator[ClusterExecutor]:
    """The executor of a run, whose cluster ends with the context, as does its `progress`."""
    with progress, cluster:
        cluster.when_started(lambda c: c.subscribe_topic(worker.TOPIC, progress.on_event))
        cluster.forward_logging()
        with dask_reported(cluster, folder / DASK_REPORT):
            executor = ClusterExecutor(cluster, metrics, progress)
            cluster.demand = executor.dispatcher.wanted
            yield executor


class ClusterExecutor(Executor):
    """An executor on a cluster; small calls stay here until workers run."""

    def __init__(
        self, cluster: Cluster, metrics: Metrics | None = None, progress: Progress | None = None
    ) -> None:
        self.cluster, self.settings, self._progress = cluster, cluster.settings, progress
        self.metrics = metrics if metrics is not None else Metrics()
        self.dispatcher = Dispatcher(cluster)
        self._limits = Limits(self.settings.item_timeout, self.settings.timeout_factor)

    @property
    def has_local_workers(self) -> bool:
        return self.cluster.started and self.settings.kind == "local"

    def call(self, call: Call[Result], *args: object) -> Result:
        # A run with nothing to do starts no worker.
        if self.cluster.started:
            return self._on_worker(call, args)
        with CostMeter() as meter:
            result = call.work(*args)
        self.metrics.here(call.stage, call.step, meter.cost, args)
        return result

    def ready(self) -> float:
        began = time.monotonic()
        with self._progress.while_workers_start() if self._progress else nullcontext():
            self.cluster.client  # noqa: B018 - waits for it
        return time.monotonic() - began

    def kind(self, name: str, job: Job) -> str:
        return GPU if GPU in self.cluster.kinds and name in gpu.stages(job) else CPU

    def width(self) -> int:
        """Shards in progress: one per worker, and as many waiting, so that no long stage is left
        for the end while other workers idle."""
        return self.cluster.size + min(self.cluster.size, MOST_WAITING)

    def chains(self, shards: Sequence[str], chain: Chain) -> list[list[Done]]:
        dispatcher = self.dispatcher
        return map_chains(shards, chain, self.width, dispatcher.cancel, dispatcher.drain)

    def stage(self, name: str, job: Job, shard: str, seconds: float) -> Done:
        kind = self.kind(name, job)
        place, trace = Place(name, shard=shard, kind=kind), Trace()
        with self.metrics.failing(place, trace):
            done = self.dispatcher.run(
                worker.run_stage,
                name,
                job,
                shard,
                seconds,
                within=partial(deadline_of_stage, self._limits, seconds),
                name=f"{name} of {shard}",
                kind=kind,
                trace=trace,
            )
        if done.cost is not None:
            counts = (done.seconds, done.computed, done.reused, done.load)
            self.metrics.add(row(place, trace, done.cost, *counts))
        return done

    def map(self, call: Call[Result], args: Sequence[tuple[object, ...]]) -> list[Result]:
        run = partial(self._on_worker, call)
        width = partial(self.cluster.count, CPU)
        return map_chains(args, run, width, self.dispatcher.cancel)

    def _on_worker(self, call: Call[Result], args: tuple[object, ...]) -> Result:
        place, trace = place_of(call.stage, call.step, args, CPU), Trace()
        with self.metrics.failing(place, trace):
            ended: tuple[Result, Cost] = self.dispatcher.run(
                worker.run_call,
                call.work,
                *args,
                within=lambda isolated: call.deadline(self._limits, isolated, args),
                isolates="isolate" in signature(call.work).parameters,
                name=f"{call.stage} {call.step}",
                trace=trace,
            )
        result, cost = ended
        self.metrics.add(row(place, trace, cost))
        return result


@contextmanager
def dask_reported(cluster: Cluster, path: Path) -> Iterator[None]:
    """Write Dask's report of the cluster's work inside the context, if the settings ask for it and
    the cluster starts. A failure is only logged: it must not hide the run's result."""
    import distributed

    untyped: Any = distributed.performance_report
    report, begun = untyped(str(path), mode="inline"), list[Any]()

    def begin(client: Any) -> None:
        try:
            with client.as_current():
                report.__enter__()
            begun.append(client)
        except Exception as error:  # raised by the scheduler, which may lack bokeh
            log.warning("there will be no performance report: %s", error)

    if cluster.settings.performance_report:
        cluster.when_started(begin)
    try:
        yield
    finally:
        if begun and cluster.started:
            try:
                with begun[0].as_current():
                    report.__exit__(None, None, None)
                log.info("Dask's performance report: %s", path)
            except Exception as error:  # raised by the scheduler, which may be gone
                log.warning("no performance report was written: %s", error)


def deadline_of_stage(limits: Limits, seconds: float, isolated: bool) -> float:
    """`isolated`: the items of the shard run one by one, and the isolation ends those that hang."""
    return limits.of_audio(seconds) * (ONE_BY_ONE if isolated else 1)


# Runs each shard through its own chain of stages on threads, with no barrier between stages.


POLL_SECONDS = 0.5  # between two checks of the width; may delay a signal as long
INTERRUPT_SECONDS = 15.0  # that running chains have to end after an interrupt

Shard = TypeVar("Shard")
ShardResult = TypeVar("ShardResult")


def map_chains(
    shards: Sequence[Shard],
    chain: Callable[[Shard], ShardResult],
    width: int | Callable[[], int],
    cancel: Callable[[], object] = lambda: None,
    drain: Callable[[], object] = lambda: None,
) -> list[ShardResult]:
    """Return `chain(shard)` for each shard, in the order given; chains start in that order.

    `width` is the number of threads; a function is called again every POLL_SECONDS, as workers may
    join. (When they leave, the dispatcher holds calls back.)

    Each chain runs in a copy of the caller's context variables, so its Prefect tasks and flows
    belong to the caller's flow run. After an error no further shard starts, running ones finish,
    sooner by `drain`, and the first error is raised; later ones are logged. After an interrupt,
    `cancel` is called.
    """
    results: list[ShardResult | None] = [None] * len(shards)
    errors: list[BaseException] = []
    # Copied here because a thread starts with an empty context; one copy per chain, because what a
    # chain sets must not reach the next chain.
    waiting = iter([(i, contextvars.copy_context()) for i in range(len(shards))])
    lock, stop = threading.Lock(), threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                with lock:
                    index, context = next(waiting, (-1, None))
                if context is None:
                    return
                context.run(begin_chain)
                results[index] = context.run(chain, shards[index])
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)
            stop.set()
            drain()

    _run_on_threads(work, width, len(shards), stop, cancel)
    if errors:
        # A shard that was not begun may report before the shard whose error stopped it.
        first, *others = sorted(errors, key=lambda error: isinstance(error, NotBegun))
        for other in others:
            if not isinstance(other, NotBegun):
                log.error("another shard failed too: %s: %s", type(other).__name__, other)
        raise first
    return cast(list[ShardResult], results)


def _run_on_threads(
    work: Callable[[], None],
    width: int | Callable[[], int],
    most: int,
    stop: threading.Event,
    cancel: Callable[[], object],
) -> None:
    threads: list[threading.Thread] = []
    ended, finished = threading.Semaphore(0), 0

    def run() -> None:
        try:
            work()
        finally:
            ended.release()

    try:
        while finished < len(threads) or (most and not threads):
            # Once one has ended there is nothing left for new threads.
            wanted = 0 if finished else min(width() if callable(width) else width, most)
            while not stop.is_set() and len(threads) < wanted:
                # Daemons: a thread stuck in a dead connection must not keep the process alive.
                name = f"chain-{len(threads)}"
                threads.append(threading.Thread(target=run, name=name, daemon=True))
                threads[-1].start()
            finished += ended.acquire(timeout=POLL_SECONDS)
    except BaseException:
        stop.set()
        cancel()
        until = time.monotonic() + INTERRUPT_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        raise
