"""The Dask cluster of a run: spawned workers that are capped, pinned, preloaded, never orphaned.

`Cluster` is a handle: nothing starts before the first use, so that a run with nothing to do
starts no worker. Dask is imported late for the same reason.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Collection
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, NoReturn, Self

from flows.cluster import fleet, nannies, remote, spawning
from flows.cluster.admission import Admission
from flows.cluster.fleet import CPU, GPU
from flows.cluster.settings import ClusterSettings, cluster_class
from tasks.errors import ConfigError, RunError

__all__ = ["Cluster", "ClusterSettings"]

log = logging.getLogger("uttermill")

WAIT_S = 60.0  # s between two lines of log about a cluster without workers
FIT_S = 120.0  # s that a run waits for a fit worker while there are only others


class Cluster:
    """Lazy handle of a run's workers; thread-safe; a context manager that leaves nothing behind.

    `scratch` is where local workers keep what lasts as long as they do. `gpu`: whether any call
    wants a GPU; without, all workers are alike and none sees one. `common`: a folder that workers
    which others start must see; see `flows.cluster.admission`.
    """

    def __init__(
        self,
        settings: ClusterSettings,
        scratch: Path,
        gpu: bool = False,
        common: Path | None = None,
    ) -> None:
        """ConfigError when the settings name what is not there. Starts nothing."""
        settings.check()
        self.settings = settings
        self._security = settings.tls.security() if settings.tls else None
        self._scratch = scratch
        self._common = common
        self._gpu = gpu and settings.gpus != "none"
        self._fleet = fleet.of(settings, gpu)
        self._lock = threading.RLock()
        self._on_start: list[Callable[[Any], object]] = []
        self._client: Any = None
        self._cluster: Any = None
        self._config: Any = None
        self._admission: Admission | None = None
        self._kinds: tuple[str, ...] | None = None
        self._directory: spawning.RunDirectory | None = None
        self._closed = False

    @property
    def started(self) -> bool:
        """Whether workers were started (or a scheduler reached) and not closed yet."""
        return self._client is not None

    @property
    def client(self) -> Any:
        """The `distributed.Client`; the first use starts the cluster. RunError if it fails."""
        with self._lock:
            if self._closed:
                raise RunError("the cluster of this run is closed")
            if self._client is None:
                try:
                    self._start()
                except BaseException:
                    self._end()
                    raise
            return self._client

    @property
    def kinds(self) -> tuple[str, ...]:
        """Kinds of workers: `(CPU,)` where all are alike, else `(CPU, GPU)`.

        For workers that others started, what they were when this was first asked.
        """
        if self._kinds is None:
            if self.settings.kind == "local":
                mixed = bool(self._fleet.pins)
            else:  # asked only where it matters: asking starts the cluster
                mixed = self._gpu and len(set(map(_kind, self._workers().values()))) > 1
            self._kinds = (CPU, GPU) if mixed else (CPU,)
        return self._kinds

    def count(self, kind: str) -> int:
        """Worker processes of a kind; for a local cluster known before it starts."""
        if self.settings.kind == "local":
            return self._fleet.count(kind)
        return (kind == CPU and self.settings.workers) or max(1, len(self._there(kind)))

    @property
    def size(self) -> int:
        """Worker processes of all kinds."""
        return sum(map(self.count, self.kinds))

    def live(self, kind: str) -> int:
        """Workers that are there now: fewer than `count` while a dead one is replaced."""
        return len(self._there(kind))

    def submit(self, function: Callable[..., Any], *args: Any, kind: str = CPU) -> Any:
        """Run an importable function on a worker of a kind; a `distributed.Future`.

        Dask neither merges equal calls nor repeats one whose worker died: the future then fails
        with `distributed.KilledWorker`, and the caller decides.
        """
        client = self.client  # first: who may work is known once the cluster is up
        return client.submit(function, *args, pure=False, retries=0, **self._place(kind))

    def _place(self, kind: str) -> dict[str, Any]:
        if len(self.kinds) == 1:
            return self._admitted_only()
        # Of those that others started, only the ones with a GPU need to say what they have.
        if self.settings.kind != "local" and kind == CPU and (there := self._there(CPU)):
            return {"workers": there}
        return {"resources": {kind: 1}}

    def _admitted_only(self) -> dict[str, Any]:
        """Nothing where every worker may work: a call that names none goes to any one."""
        if self._admission is None:
            return {}
        until = time.monotonic() + FIT_S
        while not (may := self._admission.of(workers := self._workers())):
            if workers and time.monotonic() > until:
                self._no_worker(workers)
            if not workers:
                return {}  # Dask waits for one, and knows for how long
            time.sleep(0.5)
        return {} if len(may) == len(workers) else {"workers": may}

    def _there(self, kind: str) -> list[str]:
        """Addresses of the workers of a kind that are there now and may work."""
        found = self._workers()
        may = self._admission.of(found) if self._admission else list(found)
        return [a for a in may if len(self.kinds) == 1 or _kind(found[a]) == kind]

    def _workers(self) -> dict[str, dict[str, float]]:
        """Each worker's resources, by its address."""
        client = self.client
        # Ours runs in this process: no message to it, which would cost each call some ms.
        ours = getattr(getattr(self._cluster, "scheduler", None), "workers", None)
        if ours is None:
            workers = client.scheduler_info()["workers"]
            return {address: worker["resources"] for address, worker in workers.items()}
        # As a plain dictionary it is copied in one step; the scheduler's thread may change it.
        return {address: worker.resources for address, worker in dict.copy(ours).items()}

    def restart_worker_of(self, future: Any) -> bool:
        """Cancel a running call and put a fresh worker in the place of its own.

        False when it runs nowhere (any more). Meant for calls past their deadline: the process is
        killed, whatever it does.
        """
        client = self.client
        holders = [a for a, keys in client.processing().items() if future.key in map(str, keys)]
        # Cancelled first: otherwise Dask would run the same call again on the fresh worker.
        future.cancel()
        if holders:
            try:
                client.restart_workers(holders, timeout=30, raise_for_error=False)
            except ValueError as error:  # one that others started without a nanny
                raise RunError(
                    f"a call is past its deadline, and its worker cannot be restarted: {error} "
                    "Start workers without --no-nanny"
                ) from error
        return bool(holders)

    def subscribe(self, topic: str, handler: Callable[[Any], object]) -> None:
        """Call `handler((time, message))` for each event that workers log; starts nothing."""
        self.when_started(lambda client: client.subscribe_topic(topic, handler))

    def forward_logging(self, name: str = "uttermill", level: int = logging.INFO) -> None:
        """Workers' records of this logger appear on the same logger here; starts nothing."""
        self.when_started(lambda client: client.forward_logging(name, level=level))

    def close(self) -> None:
        """End all workers within seconds, whatever they do; remove their files. May be repeated."""
        with self._lock:
            self._closed = True
            self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def when_started(self, action: Callable[[Any], object]) -> None:
        """Call `action(client)` as soon as there is one; starts nothing."""
        with self._lock:
            self._on_start.append(action)
            if self._client is not None:
                action(self._client)

    def _start(self) -> None:
        import dask.config
        import distributed

        config = spawning.configuration()
        if self.settings.kind == "class":
            config["distributed.scheduler.no-workers-timeout"] = None  # a queue may be long
        spawning.forget_main()
        # Held until the end: a nanny asks again (start method, daemon) when it replaces a worker.
        self._config = dask.config.set(config)
        with spawning.environment(spawning.environ()):
            try:
                target = self._address_or_cluster()
                client_class: Any = distributed.Client  # untyped
                self._client = client_class(target, set_as_default=False, security=self._security)
            except (OSError, RuntimeError, TimeoutError) as error:
                raise RunError(f"the Dask cluster does not start: {nannies.root(error)}") from error
        if self.settings.kind != "local":
            self._agree()
            if self._gpu and len(self.kinds) == 1:
                log.info("the workers are all alike in the resource GPU: any one takes any stage")
        for action in self._on_start:
            action(self._client)

    def _address_or_cluster(self) -> Any:
        if self.settings.kind == "address":
            return self.settings.address
        if self.settings.kind == "class":
            maker = cluster_class(self.settings.class_name)
            try:
                self._cluster = maker(**self.settings.options)
            except TypeError as error:  # an option that it does not have, most often
                raise ConfigError(
                    f"cluster.options do not fit {self.settings.class_name}: {error}"
                ) from error
            if self.settings.workers and hasattr(self._cluster, "scale"):
                self._cluster.scale(self.settings.workers)
            return self._cluster
        self._directory = spawning.RunDirectory(self._scratch)
        self._cluster = nannies.start(
            self._fleet,
            fleet.memory(self.settings, self._fleet),
            self._directory.path,
            self._security,
            self.settings.dashboard,
        )
        return self._cluster

    def _agree(self) -> None:
        """Workers that others started: at least one of them has to be fit for this run."""
        self._admission = Admission(self._client, self._common)
        while not self._admission.of(workers := self._workers()):
            if self._admission.refused(workers):
                self._no_worker(workers)
            if not workers:
                log.info("no worker has joined the scheduler yet; waiting for one")
                with suppress(TimeoutError):
                    self._client.wait_for_workers(1, timeout=WAIT_S)
            else:  # it has just died, or is too busy to answer
                time.sleep(0.5)
        self._forget_handed_over()  # what a run that was killed left there

    def _no_worker(self, workers: Collection[str]) -> NoReturn:
        assert self._admission is not None
        faults = "; ".join(self._admission.refused(workers)) or "none answers"
        raise RunError(f"no worker of the Dask cluster can work for this run: {faults}")

    def _forget_handed_over(self) -> None:
        with suppress(TimeoutError, OSError, RuntimeError):
            self._client.run(
                remote.forget, on_error="ignore", callback_timeout=spawning.CLOSE_S
            )  # fmt: skip

    def _end(self) -> None:
        workers = spawning.local_processes(self._cluster)
        try:
            if self._client is not None:
                if self._admission is not None:
                    self._forget_handed_over()
                with suppress(TimeoutError, OSError, RuntimeError):
                    self._client.close(timeout=spawning.CLOSE_S)
            # Dask would wait for what still runs, cancelled calls too. What a worker writes is
            # atomic and its other files are ours, so nothing is lost by a kill.
            spawning.end_now(self._cluster)
            if self._cluster is not None:
                with suppress(TimeoutError, OSError, RuntimeError):
                    self._cluster.close(timeout=spawning.CLOSE_S)
        finally:  # a second Ctrl-C must not leave workers either
            spawning.kill(workers)
            self._client = self._cluster = self._admission = None
            if self._config is not None:
                self._config.__exit__(None, None, None)
                self._config = None
            if self._directory is not None:
                self._directory.remove()
                self._directory = None


def _kind(resources: dict[str, float]) -> str:
    return GPU if resources.get(GPU) else CPU
