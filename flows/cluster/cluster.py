"""The Dask cluster of a run: spawned, capped, preloaded workers that never outlive it.

Dask is imported late: a run with nothing to do starts no worker.
"""

from __future__ import annotations

import gc
import logging
import shutil
import threading
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, Self

from ...tasks.base import environment
from ...tasks.base.counting import counted
from ...tasks.base.errors import RunError
from ...tasks.base.logs import log
from ...tasks.settings.job import Job
from .. import machine
from . import address, leaving, local, upkeep, worker, worker_counts
from .settings import ClusterSettings, TlsSettings, WorkerRange
from .upkeep import Upkeep
from .worker_counts import CPU, GPU, Needs
from .workers import Admission, Patience, Workers

if TYPE_CHECKING:
    from distributed import Security, SpecCluster


PAUSES = (0.1, 0.2, 0.5, 1, 2, 4)  # s between attempts to reach all workers
LOOK_S = 0.2  # s between two checks of the thread that starts the workers
FIRST_S = 7.0  # s before the first word about missing workers: the queue has been queried once
CLOSE_S = 5.0  # s that `close` waits for a start
THREADS, OWN_THREADS = 8, 12  # that a worker starts, and that its cluster starts in this process


class Cluster:
    """Lazy handle of a run's workers; thread-safe; a context manager that leaves nothing behind.

    `scratch`: a folder for this cluster alone, with files of local workers while they live; after a
    kill, its owner removes the folder around it. `gpu`: whether any call needs a GPU. `common`: a
    folder that workers started by others must be able to write to. `engines`: what local workers
    load before their first task; None: all of `tasks.preload`. `needed`: the memory that they need.
    `job`: what they compute; workers that would compute other data are refused.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        scratch: Path,
        gpu: bool = False,
        common: Path | None = None,
        engines: Mapping[str, str] | None = None,
        needed: Needs = Needs(),  # noqa: B008 - frozen
        job: Job | None = None,
    ) -> None:
        """ConfigError when the settings name something that does not exist. Starts nothing."""
        settings.check()
        self.settings = settings
        self._scratch = scratch
        self._common = common
        self._engines = engines
        self._gpu = gpu and settings.gpus != "none"
        self._needed = needed
        self._job = job
        self._fleet = worker_counts.local_workers(settings, gpu, needed)
        self._lock = threading.RLock()
        self._on_start: list[Callable[[Any], object]] = []
        self._thread: threading.Thread | None = None  # which starts the workers
        # Not `Thread.is_alive`, which Python 3.11 answers wrongly once Ctrl-C has ended a `join`.
        self._start_over = threading.Event()
        self._ready = False
        self._client: Any = None
        self._cluster: Any = None
        self._workers: Workers | None = None
        self._open = ExitStack()  # closed when the workers have ended
        self._closing = threading.Event()
        self._starting: list[SpecCluster] = []  # a local cluster, from its first moment
        self._failure: BaseException | None = None  # of the start, which is not repeated
        self._upkeep: Upkeep | None = None
        #: Calls that run or wait, which the number of workers follows where it is a range.
        self.demand: Callable[[], int] = lambda: 0
        self._left: set[str] = set()  # addresses of workers that were told to leave

    @property
    def started(self) -> bool:
        return self._ready

    def start(self) -> None:
        """Start the workers in the background, once; `client` raises any error.

        In a thread of its own, so that Ctrl-C reaches a main thread that waits for them.
        """
        with self._lock:
            if self._thread is None and not self._closing.is_set():
                name = "start-workers"
                self._thread = threading.Thread(target=self._try_to_start, name=name, daemon=True)
                self._thread.start()

    @property
    def client(self) -> Any:
        """The `distributed.Client`; the first use starts the cluster. RunError if that fails."""
        self.start()
        while not self._start_over.wait(LOOK_S):
            pass
        if self._closing.is_set():
            raise RunError("the cluster of this run is closed")
        if self._failure is not None:
            raise self._failure
        return self._client

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of workers: `(CPU,)` while all are alike, else `(CPU, GPU)`."""
        if self.settings.kind == "local":
            return (CPU, GPU) if self._fleet.pins else (CPU,)
        if not self._gpu:  # not read, because that would start the cluster
            return (CPU,)
        return self._connected().kinds

    def count(self, kind: str) -> int:
        """Worker processes of a kind that exist or were requested; known before a local cluster
        starts."""
        if self.settings.kind == "local":
            return self._fleet.count(kind)
        asked = (self.settings.most_workers or 0) if kind == CPU else 0
        return max(1, asked, len(self._connected().there(kind)))

    @property
    def size(self) -> int:
        return sum(map(self.count, self.kinds))

    def live(self, kind: str) -> int:
        """How many workers of a kind may work now; see `Workers.count`. 0 while the workers start,
        so that who waits for one can be interrupted."""
        self.start()
        return self._connected().count(kind) if self._start_over.wait(LOOK_S) else 0

    def await_all(self) -> int:
        """Wait until as many workers have joined, refused ones included, as the settings ask for,
        but at most `wait_for_workers`; returns how many they ask for."""
        client, workers = self.client, self.settings.workers
        until = monotonic() + self.settings.wait_for_workers
        least = workers.min if isinstance(workers, WorkerRange) else workers
        wanted = self.size if self.settings.kind == "local" else max(1, least or 1)
        while len(client.nthreads()) < wanted and monotonic() < until:
            self._closing.wait(1.0)
        return wanted

    def submit(self, function: Callable[..., Any], *args: Any, kind: str = CPU) -> Any:
        """Run an importable function on a worker of a kind; a `distributed.Future`, which fails
        with `distributed.KilledWorker` if that dies: Dask neither merges equal calls nor repeats
        one."""
        where = self._connected().restrictions(kind)
        call = worker.trusting(function)
        return self.client.submit(call, *args, pure=False, retries=0, **where)

    def _connected(self) -> Workers:
        assert self.client is not None
        assert self._workers is not None
        return self._workers

    def restart_worker_of(self, future: Any) -> bool:
        """Cancel a call past its deadline and replace its worker, whose process is killed; False
        when no worker runs it (any more)."""
        client = self.client
        holders = [a for a, keys in client.processing().items() if future.key in map(str, keys)]
        # Cancelled first: otherwise Dask would run the same call again on the new worker.
        future.cancel()
        if holders:
            try:
                client.restart_workers(holders, timeout=30, raise_for_error=False)
            except ValueError as error:  # a worker that others started without a nanny
                raise RunError(
                    f"a call is past its deadline, and its worker cannot be restarted: {error} "
                    "Start workers without --no-nanny"
                ) from error
        return bool(holders)

    def left(self, address: str) -> bool:
        """Whether a worker that has just died was told to leave: by TERM, or by its walltime."""
        self._connected().forget()
        return address in self._left

    def renew(self) -> None:
        """Replace all local workers, none of which runs a call: new ones hold no models in memory.
        Spares workers that others started, which may work for others."""
        if self.settings.kind == "local":
            self.client.restart_workers(
                [*self.client.nthreads()], timeout=30, raise_for_error=False
            )

    def forward_logging(self) -> None:
        """Repeat the workers' records of uttermill's logger in this process; starts nothing."""

        def forward(client: Any) -> None:
            for pause in PAUSES:  # a worker that dies meanwhile fails Dask's request to all
                with suppress(OSError):
                    client.forward_logging(log.name, level=logging.INFO)
                    return
                self._closing.wait(pause)
            client.forward_logging(log.name, level=logging.INFO)

        self.when_started(forward)

    def close(self) -> None:
        """End all workers within seconds, whatever they do, and remove their files. Idempotent."""
        self._closing.set()  # ends a wait for workers
        until = monotonic() + CLOSE_S
        with self._lock:
            if self._thread is None:
                self._start_over.set()
        while not self._start_over.is_set() and monotonic() < until:
            local.abandon(self._starting)
            self._start_over.wait(LOOK_S)
        if self._start_over.is_set():
            self._end()
        # Else it is still connecting, and ends the cluster itself afterwards.

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def when_started(self, action: Callable[[Any], object]) -> None:
        """Call `action(client)` as soon as there is a client; starts nothing."""
        with self._lock:
            self._on_start.append(action)
            if self._ready:
                action(self._client)

    def _try_to_start(self) -> None:
        try:
            with local.interrupts_kept_from_workers():
                self._start()
            with self._lock:
                for action in self._on_start:
                    action(self._client)
                self._ready = True
        except BaseException as error:  # raised by `client`
            self._failure = error
        try:
            if self._failure is not None or self._closing.is_set():
                self._end()
        finally:
            self._start_over.set()

    def _start(self) -> None:
        import dask.config
        import distributed

        settings = self.settings
        is_local = settings.kind == "local"
        variables = local.variables(self._engines)
        config = local.merged(variables, settings.performance_report, settings.dashboard)
        of_workers = local.worker_environment(variables)
        # All stay until the end: a nanny uses them again when it replaces a worker.
        self._open.enter_context(local.without_main())
        self._open.enter_context(dask.config.set(config))
        self._open.enter_context(environment.restored([*of_workers, local.PARENT]))
        if is_local:
            what = f"a cluster of {counted(self.size, 'worker')}"
            machine.check(OWN_THREADS + THREADS * self.size, what, "lower cluster.workers")
        self._open.enter_context(local.silent(self._closing))
        # Dask prefers this process's to its configuration.
        with environment.restored([local.PARENT]), environment.setting(of_workers):
            try:
                security: Security | None = None  # plain, or left to the cluster class
                if isinstance(settings.tls, TlsSettings):
                    security = settings.tls.security()
                elif settings.tls == "auto" and is_local:
                    temporary: Any = distributed.Security.temporary
                    security = temporary()  # Dask keeps no file of its key
                target = self._address_or_cluster(security)
                self._client = address.client(target, security, local.CLOSE_S)
                if self._upkeep is not None:  # the client waits for jobs, and for refused ones, too
                    self._upkeep.start()
            except (OSError, RuntimeError, TimeoutError, TypeError, ValueError) as error:
                if settings.kind == "address":
                    why = address.fault(str(settings.address), local.root(error))
                    raise RunError(why) from error
                if isinstance(error, TypeError | ValueError) and not isinstance(error, OSError):
                    raise
                raise RunError(f"the Dask cluster does not start: {local.root(error)}") from error
        if is_local:
            self._workers = Workers(self._client, separate=bool(self._fleet.pins))
            return
        admission = Admission(self._client, self._common, self._job, settings.mixed)
        patience = Patience(
            settings.wait_for_workers,
            FIRST_S,
            "start workers, or raise cluster.wait_for_workers, and run again",
            lambda: upkeep.word_of_pods(self._cluster),
        )
        if (jobs := self._upkeep) is not None:
            patience = replace(patience, word=jobs.word, fault=jobs.fault)
        separate = None if self._gpu else False
        self._workers = Workers(self._client, admission, separate, patience)
        self._workers.wait(self._closing)
        self._client.subscribe_topic(leaving.TOPIC, lambda event: self._left.add(event[1]))
        if self._gpu and len(self._workers.kinds) == 1:
            log.info("all workers have the resource GPU, or none has: any runs any stage")

    def _address_or_cluster(self, security: Security | None) -> Any:
        if self.settings.kind == "address":
            return self.settings.address
        if self.settings.kind == "class":
            self._cluster = self.settings.new_cluster()
            self._upkeep = upkeep.for_cluster(
                self._cluster, self.settings.workers, lambda: self.demand()
            )
            return self._cluster
        self._scratch.mkdir(parents=True, exist_ok=True)
        self._open.callback(shutil.rmtree, self._scratch, ignore_errors=True)
        self._cluster = local.start(
            self._fleet,
            worker_counts.memory(self.settings, self._fleet, self._needed),
            self._scratch,
            security,
            self.settings.dashboard,
            self._engines,
            self._starting,
            self._closing,
        )
        return self._cluster

    def _end(self) -> None:
        if self._upkeep is not None:
            self._upkeep.close(local.CLOSE_S)
        workers = local.processes(self._cluster)
        try:
            if self._client is not None:
                with suppress(TimeoutError, OSError, RuntimeError):
                    self._client.close(timeout=local.CLOSE_S)
            # Dask would wait for what still runs, cancelled calls included. Workers write
            # atomically and their other files are the run's, so a kill loses nothing.
            local.end_now(self._cluster)
            if self._cluster is not None:
                with suppress(TimeoutError, OSError, RuntimeError):
                    self._cluster.close(timeout=local.CLOSE_S)
        finally:  # a second Ctrl-C must not leave workers either
            local.kill(workers)
            self._client = self._cluster = self._workers = None
            self._upkeep, self._ready = None, False
            self._open.close()
            if self.settings.kind == "class":
                gc.collect()  # dask_jobqueue's clusters remove the files of their keys only then
