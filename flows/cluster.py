"""The Dask cluster of a run: spawned workers that are capped, preloaded and never orphaned.

`Cluster` is a handle: nothing starts before the first use, so that a run with nothing to do
starts no worker. Dask is imported late for the same reason.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from contextlib import suppress
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from flows import spawning
from flows.cluster_settings import ClusterSettings, cluster_class, local_memory, local_size
from tasks.errors import RunError

__all__ = ["Cluster", "ClusterSettings"]

log = logging.getLogger("uttermill")

STARTS = 3  # a worker that something kills while it starts is no reason to end the run
KILLED = "Nanny failed to start worker process"  # what Dask says of one that said nothing itself


class Cluster:
    """Lazy handle of a run's workers; thread-safe; a context manager that leaves nothing behind.

    `scratch` is where local workers keep what lasts as long as they do.
    """

    def __init__(self, settings: ClusterSettings, scratch: Path) -> None:
        """ConfigError when the settings name what is not there. Starts nothing."""
        settings.check()
        self.settings = settings
        self._security = settings.tls.security() if settings.tls else None
        self._scratch = scratch
        self._lock = threading.RLock()
        self._on_start: list[Callable[[Any], object]] = []
        self._client: Any = None
        self._cluster: Any = None
        self._config: Any = None
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
    def size(self) -> int:
        """Worker processes; for a local cluster known before it starts."""
        if self.settings.kind == "local":
            return local_size(self.settings)
        return self.settings.workers or max(1, len(self.client.nthreads()))

    @property
    def live(self) -> int:
        """Workers that are there now: fewer than `size` while a dead one is replaced."""
        client = self.client
        # Ours runs in this process: no message to it, which would cost each call some ms.
        ours = getattr(self._cluster, "scheduler", None)
        return len(ours.workers) if ours is not None else len(client.nthreads())

    def submit(self, function: Callable[..., Any], *args: Any) -> Any:
        """Run an importable function on a worker; a `distributed.Future`.

        Dask neither merges equal calls nor repeats one whose worker died: the future then fails
        with `distributed.KilledWorker`, and the caller decides.
        """
        return self.client.submit(function, *args, pure=False, retries=0)

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
            client.restart_workers(holders, timeout=30, raise_for_error=False)
        return bool(holders)

    def subscribe(self, topic: str, handler: Callable[[Any], object]) -> None:
        """Call `handler((time, message))` for each event that workers log; starts nothing."""
        self._when_started(lambda client: client.subscribe_topic(topic, handler))

    def forward_logging(self, name: str = "uttermill", level: int = logging.INFO) -> None:
        """Workers' records of this logger appear on the same logger here; starts nothing."""
        self._when_started(lambda client: client.forward_logging(name, level=level))

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

    def _when_started(self, action: Callable[[Any], object]) -> None:
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
                raise RunError(f"the Dask cluster does not start: {_root(error)}") from error
        if self.settings.kind != "local":
            self._agree()
        for action in self._on_start:
            action(self._client)

    def _address_or_cluster(self) -> Any:
        if self.settings.kind == "address":
            return self.settings.address
        if self.settings.kind == "class":
            maker = cluster_class(self.settings.class_name)
            self._cluster = maker(**self.settings.options)
            if self.settings.workers and hasattr(self._cluster, "scale"):
                self._cluster.scale(self.settings.workers)
            return self._cluster
        import distributed

        local_class: Any = distributed.LocalCluster  # untyped
        self._directory = spawning.RunDirectory(self._scratch)
        before = set(local_class._instances)
        for left in reversed(range(STARTS)):
            try:
                self._cluster = local_class(
                    n_workers=local_size(self.settings),
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    protocol="tls://" if self._security else "tcp://",
                    security=self._security,
                    memory_limit=local_memory(self.settings),
                    dashboard_address="127.0.0.1:0" if self.settings.dashboard else None,
                    # Its HTTP server runs without a dashboard too: on no fixed port, and only here.
                    # And its folder lies with the workers', which is swept after a killed run.
                    scheduler_kwargs={
                        "dashboard_address": "127.0.0.1:0",
                        "local_directory": str(self._directory.path),
                    },
                    local_directory=str(self._directory.path),
                    silence_logs=logging.ERROR,
                )
                break
            except RuntimeError as error:
                if not left or str(_root(error)) != KILLED:
                    raise
                log.warning("a worker was killed while it started; all start again")
            except BaseException:  # an interrupt; no variable holds what has begun
                spawning.abandon(set(local_class._instances) - before)
                raise
        return self._cluster

    def _agree(self) -> None:
        """Workers that others started have no version to compare with: ask them."""
        self._client.wait_for_workers(1, timeout=None)
        ours = version("uttermill")
        for address, theirs in self._client.run(version, "uttermill").items():
            if theirs != ours:
                raise RunError(f"worker {address} has uttermill {theirs}, this is {ours}")

    def _end(self) -> None:
        workers = spawning.local_processes(self._cluster)
        try:
            if self._client is not None:
                with suppress(TimeoutError, OSError, RuntimeError):
                    self._client.close(timeout=spawning.CLOSE_S)
            # Dask would wait for what still runs, cancelled calls too. What a worker writes is
            # atomic and its other files are ours, so nothing is lost by a kill.
            spawning.end_now(self._cluster, workers)
            if self._cluster is not None:
                with suppress(TimeoutError, OSError, RuntimeError):
                    self._cluster.close(timeout=spawning.CLOSE_S)
        finally:  # a second Ctrl-C must not leave workers either
            spawning.kill(workers)
            self._client = self._cluster = None
            if self._config is not None:
                self._config.__exit__(None, None, None)
                self._config = None
            if self._directory is not None:
                self._directory.remove()
                self._directory = None


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error
