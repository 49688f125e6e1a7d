"""The Dask cluster of a run: spawned workers that are capped, preloaded and never orphaned.

`Cluster` is a handle: nothing starts before the first use, so that a run with nothing to do
starts no worker. Dask is imported late for the same reason.
"""

from __future__ import annotations

import fcntl
import logging
import multiprocessing.spawn
import os
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self

import psutil
from pydantic import Field, field_validator, model_validator

from tasks.errors import ConfigError, RunError
from tasks.settings import TRANSIENT, StageSettings

log = logging.getLogger("uttermill")

#: What `infra/dask.yaml` says too (a test holds them equal); the reasons stand there.
DASK_CONFIG: dict[str, Any] = {
    "distributed": {
        "worker": {
            "multiprocessing-method": "spawn",
            "preload": ["tasks.preload"],
            "daemon": False,
            "memory": {"target": False, "spill": False, "pause": False, "terminate": 0.95},
        },
        "nanny": {
            "pre-spawn-environ": {
                "OMP_NUM_THREADS": "1",
                "OPENBLAS_NUM_THREADS": "1",
                "MKL_NUM_THREADS": "1",
                "NUMBA_NUM_THREADS": "1",
                "NUMEXPR_NUM_THREADS": "1",
                "VECLIB_MAXIMUM_THREADS": "1",
                "TOKENIZERS_PARALLELISM": "false",
                "PYTHONHASHSEED": "6640",
                "MALLOC_TRIM_THRESHOLD_": "67108864",
                "MALLOC_MMAP_THRESHOLD_": "33554432",
            }
        },
        "scheduler": {
            "allowed-failures": 0,
            "worker-saturation": 1.0,
            "worker-ttl": "30 minutes",
            "no-workers-timeout": "2 minutes",
        },
        "deploy": {"lost-worker-timeout": "1 hour"},
        "admin": {"tick": {"limit": "10 minutes"}},
    }
}

#: A worker's imports take 0.4 GB, a Whisper base model 0.3 GB, blocks and batches the rest.
LEAST_MEMORY = 1_500_000_000
MOST_WORKERS = 8
CLOSE_S = 4.0
STARTS = 3  # a worker that something kills while it starts is no reason to end the run
KILLED = "Nanny failed to start worker process"  # what Dask says of one that said nothing itself


class ClusterSettings(StageSettings):
    """Where the work is done; changes speed only."""

    kind: Literal["local", "address", "class"] = Field(
        default="local", json_schema_extra=TRANSIENT,
        description="Workers on this machine, a running scheduler, or any Dask cluster class.",
    )  # fmt: skip
    workers: int | None = Field(
        default=None, ge=1, json_schema_extra=TRANSIENT,
        description="Worker processes; default: one a CPU, at most 8, each with 1.5 GB at least.",
    )  # fmt: skip
    memory_limit: str = Field(
        default="auto", json_schema_extra=TRANSIENT,
        description="Memory of a worker, as in 2GB; at 95 % of it the worker is killed and the "
        "culprit is found. auto: an equal part of 90 % of the machine's, at least 1.5 GB.",
    )  # fmt: skip
    asr_threads: int | None = Field(
        default=None, ge=1, json_schema_extra=TRANSIENT,
        description="Threads of a recogniser on the CPU; default: CPUs per worker.",
    )  # fmt: skip
    item_timeout: float = Field(
        default=600.0, gt=0, json_schema_extra=TRANSIENT,
        description="Seconds after which an item that hangs is quarantined.",
    )  # fmt: skip
    timeout_factor: float = Field(
        default=20.0, gt=0, json_schema_extra=TRANSIENT,
        description="A shard's deadline: item_timeout + this many times its audio.",
    )  # fmt: skip
    address: str | None = Field(
        default=None, json_schema_extra=TRANSIENT, description="Scheduler, as tcp://host:8786."
    )
    class_name: str | None = Field(
        default=None, json_schema_extra=TRANSIENT,
        description="Dotted name of a cluster class, as dask_jobqueue.SLURMCluster.",
    )  # fmt: skip
    options: dict[str, Any] = Field(
        default={}, json_schema_extra=TRANSIENT, description="Arguments of the cluster class."
    )
    dashboard: bool = Field(
        default=False, json_schema_extra=TRANSIENT,
        description="Dask's dashboard on a free port of the loopback; needs bokeh.",
    )  # fmt: skip

    @field_validator("memory_limit")
    @classmethod
    def _bytes(cls, value: str) -> str:
        if value != "auto":
            from dask.utils import parse_bytes

            parse_bytes(value)  # a ValueError of its own says what it wants
        return value

    @model_validator(mode="after")
    def _complete(self) -> Self:
        if self.kind == "address" and not self.address:
            raise ValueError("kind address needs cluster.address, as tcp://host:8786")
        if self.kind == "class" and not self.class_name:
            raise ValueError("kind class needs cluster.class_name, as dask_jobqueue.SLURMCluster")
        return self


def local_size(settings: ClusterSettings) -> int:
    """Number of local worker processes."""
    from dask.system import CPU_COUNT  # this and the next know cgroups
    from distributed.system import MEMORY_LIMIT

    return settings.workers or max(1, min(CPU_COUNT, MOST_WORKERS, MEMORY_LIMIT // LEAST_MEMORY))


def local_memory(settings: ClusterSettings) -> int:
    """Memory limit of a local worker, bytes."""
    from dask.utils import parse_bytes
    from distributed.system import MEMORY_LIMIT

    if settings.memory_limit != "auto":
        return int(parse_bytes(settings.memory_limit))
    return max(LEAST_MEMORY, int(0.9 * MEMORY_LIMIT) // local_size(settings))


def asr_threads(settings: ClusterSettings) -> int:
    """CPU threads of one worker's recogniser: its share of the CPUs."""
    from dask.system import CPU_COUNT

    return settings.asr_threads or max(1, CPU_COUNT // (settings.workers or local_size(settings)))


class Cluster:
    """Lazy handle of a run's workers; thread-safe; a context manager that leaves nothing behind.

    `scratch` is where local workers keep what lasts as long as they do.
    """

    def __init__(self, settings: ClusterSettings, scratch: Path) -> None:
        """ConfigError when the settings name what is not installed. Starts nothing."""
        if settings.dashboard and find_spec("bokeh") is None:
            raise ConfigError("cluster.dashboard needs bokeh: pip install bokeh, or turn it off")
        self.settings = settings
        self._maker = _cluster_class(settings.class_name) if settings.kind == "class" else None
        self._scratch = scratch
        self._lock = threading.RLock()
        self._on_start: list[Callable[[Any], object]] = []
        self._client: Any = None
        self._cluster: Any = None
        self._config: Any = None
        self._directory: _RunDirectory | None = None
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

        environ = {
            **DASK_CONFIG["distributed"]["nanny"]["pre-spawn-environ"],
            "UTTERMILL_VERSION": version("uttermill"),
        }
        flat = dict(_flat(DASK_CONFIG))
        flat["distributed.nanny.pre-spawn-environ.UTTERMILL_VERSION"] = version("uttermill")
        if self.settings.kind == "class":
            flat["distributed.scheduler.no-workers-timeout"] = None  # a queue may be long
        _forget_main()
        # Held until the end: a nanny asks again (start method, daemon) when it replaces a worker.
        self._config = dask.config.set(flat)
        with _environment(environ):
            try:
                target = self._address_or_cluster()
                client_class: Any = distributed.Client  # untyped
                self._client = client_class(target, set_as_default=False)
            except (OSError, RuntimeError, TimeoutError) as error:
                raise RunError(f"the Dask cluster does not start: {_root(error)}") from error
        if self.settings.kind != "local":
            self._agree()
        for action in self._on_start:
            action(self._client)

    def _address_or_cluster(self) -> Any:
        if self.settings.kind == "address":
            return self.settings.address
        if self._maker is not None:
            self._cluster = self._maker(**self.settings.options)
            if self.settings.workers and hasattr(self._cluster, "scale"):
                self._cluster.scale(self.settings.workers)
            return self._cluster
        import distributed

        local_class: Any = distributed.LocalCluster  # untyped
        self._directory = _RunDirectory(self._scratch)
        for left in reversed(range(STARTS)):
            try:
                self._cluster = local_class(
                    n_workers=local_size(self.settings),
                    threads_per_worker=1,
                    processes=True,
                    host="127.0.0.1",
                    memory_limit=local_memory(self.settings),
                    dashboard_address="127.0.0.1:0" if self.settings.dashboard else None,
                    # Its HTTP server runs without a dashboard too: on no fixed port, and only here.
                    scheduler_kwargs={"dashboard_address": "127.0.0.1:0"},
                    local_directory=str(self._directory.path),
                    silence_logs=logging.ERROR,
                )
                break
            except RuntimeError as error:
                if not left or str(_root(error)) != KILLED:
                    raise
                log.warning("a worker was killed while it started; all start again")
        return self._cluster

    def _agree(self) -> None:
        """Workers that others started have no version to compare with: ask them."""
        self._client.wait_for_workers(1, timeout=None)
        ours = version("uttermill")
        for address, theirs in self._client.run(version, "uttermill").items():
            if theirs != ours:
                raise RunError(f"worker {address} has uttermill {theirs}, this is {ours}")

    def _end(self) -> None:
        workers = _local_processes(self._cluster)
        try:
            if self._client is not None:
                with suppress(TimeoutError, OSError, RuntimeError):
                    self._client.close(timeout=CLOSE_S)
            # Dask would wait for what still runs, cancelled calls too. What a worker writes is
            # atomic and its other files are ours, so nothing is lost by a kill.
            _end_now(self._cluster, workers)
            if self._cluster is not None:
                with suppress(TimeoutError, OSError, RuntimeError):
                    self._cluster.close(timeout=CLOSE_S)
        finally:  # a second Ctrl-C must not leave workers either
            _kill(workers)
            self._client = self._cluster = None
            if self._config is not None:
                self._config.__exit__(None, None, None)
                self._config = None
            if self._directory is not None:
                self._directory.remove()
                self._directory = None


class _RunDirectory:
    """A directory in `scratch` that is held by a lock, so that the next run can tell and sweep
    what a killed one left."""

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        for old in scratch.glob("workers-*"):
            with suppress(OSError), (old / "lock").open("a") as lock:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(old, ignore_errors=True)
        self.path = Path(tempfile.mkdtemp(prefix="workers-", dir=scratch))
        self._lock = (self.path / "lock").open("a")
        fcntl.flock(self._lock, fcntl.LOCK_EX)

    def remove(self) -> None:
        self._lock.close()
        shutil.rmtree(self.path, ignore_errors=True)
        with suppress(OSError):
            self.path.parent.rmdir()  # only when nothing else is in it


def _local_processes(cluster: Any) -> list[psutil.Process]:
    """Worker processes of a local cluster and their children."""
    found = []
    for nanny in getattr(cluster, "workers", {}).values():
        with suppress(psutil.NoSuchProcess, TypeError, AttributeError):  # no process of ours
            process = psutil.Process(int(nanny.pid))
            if process.ppid() != os.getpid():
                continue  # a number from another machine
            found += [*process.children(recursive=True), process]
    return found


def _end_now(cluster: Any, workers: list[psutil.Process]) -> None:
    """Kill local workers and let their nannies see it: a scheduler that still believes in a dead
    or busy worker would ask it to retire, and wait."""
    if not workers:
        return
    from distributed import Status

    nannies = [n for n in cluster.workers.values() if n.status == Status.running]
    for nanny in nannies:
        nanny.status = Status.closing_gracefully  # else it would start a new worker
    _kill(workers)
    end = time.monotonic() + CLOSE_S
    while time.monotonic() < end and any(n.status != Status.closed for n in nannies):
        time.sleep(0.02)


def _kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _cluster_class(name: str | None) -> Callable[..., Any]:
    module, _, attribute = (name or "").rpartition(".")
    try:
        found: Callable[..., Any] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError, ValueError) as error:
        raise ConfigError(f"cluster.class_name: {name!r} cannot be imported: {error}") from error
    return found


def _flat(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys: `dask.config.set` would replace a nested mapping as a whole."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


@contextmanager
def _environment(values: dict[str, str]) -> Iterator[None]:
    """Variables that hold while workers are spawned: to Dask the parent's win over its
    configuration, and its nannies leave theirs behind in the parent."""
    before = {name: os.environ.get(name) for name in (*values, "__DASK_PARENT_PID")}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value


def _root(error: BaseException) -> BaseException:
    while error.__cause__ is not None:
        error = error.__cause__
    return error


_preparation = multiprocessing.spawn.get_preparation_data


def _without_main(name: str) -> dict[str, Any]:
    data: dict[str, Any] = _preparation(name)
    if "Nanny" in name:
        for key in ("init_main_from_name", "init_main_from_path"):
            data.pop(key, None)
    return data


def _forget_main() -> None:
    """Keep a worker from importing the flow's `__main__` again: under a deployment that is
    Prefect (45 MB and a second each), and a user's script without a main guard would start a
    cluster of its own. Only Dask's workers are concerned; they get importable functions."""
    multiprocessing.spawn.get_preparation_data = _without_main
