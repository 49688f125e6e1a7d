"""A local cluster: what its workers are spawned with (Dask's configuration, environment variables,
the main module), a scheduler in this process, a nanny for each worker, and the end of all of its
processes at once.

The threads of a recogniser are set in `worker_counts.py`.
"""

from __future__ import annotations

import asyncio
import json
import logging
import multiprocessing.spawn
import os
import signal
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from copy import deepcopy
from importlib import resources
from importlib.metadata import version
from multiprocessing import resource_tracker
from pathlib import Path
from typing import TYPE_CHECKING, Any

import psutil
import yaml

from ...tasks.base import environment
from ...tasks.base.environment import ENGINES_VARIABLE, SAFE_PATH, VERSION_VARIABLE
from ...tasks.base.errors import RunError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log
from ...tasks.runs import libraries
from . import gpus
from .worker_counts import CPU, GPU, Fleet

if TYPE_CHECKING:
    from distributed import Nanny, Security, SpecCluster


PARENT = "__DASK_PARENT_PID"  # which a nanny sets in this process
MAIN_KEYS = ("init_main_from_name", "init_main_from_path")
WORKERS_MAIN = "uttermill.flows.cluster.nodes"


@contextmanager
def interrupts_kept_from_workers() -> Iterator[None]:
    """Processes that threads started here spawn, and this thread, get no Ctrl-C, which a terminal
    sends to all of them: else each prints a traceback if it has just begun. The run ends them.

    A process that is spawned inherits the signals that its thread blocks, and so does a thread.
    """
    with environment.setting({SAFE_PATH: "1"}):  # it imports from no current folder
        resource_tracker.ensure_running()  # starting it later would unblock them
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


_lock = threading.Lock()
_users = 0  # contexts of `without_main` that are open
_original = multiprocessing.spawn.get_preparation_data


@contextmanager
def without_main() -> Iterator[None]:
    """Keep Dask's workers from importing the flow's `__main__` again, until the last such context
    ends: theirs is `flows.cluster.nodes`. Other processes import it as usual.

    Under a deployment `__main__` is Prefect (45 MB and a second per worker), and a script that
    starts its run outside `if __name__ == "__main__"` would start a cluster in each worker.
    multiprocessing has no setting for it: its function is replaced, and restored at the end.
    """
    global _original, _users
    with _lock:
        if not _users:
            _original = multiprocessing.spawn.get_preparation_data
            multiprocessing.spawn.get_preparation_data = _without_main
        _users += 1
    try:
        yield
    finally:
        with _lock:
            _users -= 1
            if not _users:
                multiprocessing.spawn.get_preparation_data = _original


def _without_main(name: str) -> JsonObject:
    data: JsonObject = _original(name)
    if "sys_path" in data:  # in which multiprocessing has made "" the current folder
        data["sys_path"] = [folder for folder in sys.path if os.path.isabs(folder)]
    if "Nanny" in name:
        for key in MAIN_KEYS:
            data.pop(key, None)
        data["init_main_from_name"] = WORKERS_MAIN
    return data


#: With the reasons of each setting; it is also for schedulers and workers that others start.
DASK_CONFIG: JsonObject = yaml.safe_load(
    (resources.files("uttermill") / "files/dask.yaml").read_text(encoding="utf-8")
)


def variables(engines: Mapping[str, str] | None = None) -> dict[str, str]:
    """Variables for `tasks.preload`: the version that workers must have, and what to load (None:
    everything). Both are always set, so that no other values are inherited."""
    reached = "" if engines is None else json.dumps(dict(engines))
    return {VERSION_VARIABLE: version("uttermill"), ENGINES_VARIABLE: reached}


def merged(
    variables: Mapping[str, str], profiled: bool = False, dashboard: bool = False
) -> JsonObject:
    """This process's configuration of Dask with `DASK_CONFIG` over it. `variables`: of workers;
    `profiled`: Dask samples what each does, for its report; `dashboard`: the scheduler serves all
    of its pages."""
    import dask.config

    ours = deepcopy(DASK_CONFIG)
    distributed = ours["distributed"]
    distributed["worker"]["profile"]["enabled"] = profiled
    distributed["nanny"]["pre-spawn-environ"] |= variables
    if profiled:  # the samples are one of Dask's logs
        del distributed["admin"]["low-level-log-length"]
    if profiled or dashboard:
        del distributed["admin"]["system-monitor"]
    if dashboard:
        del distributed["scheduler"]["http"]
    config: JsonObject = dask.config.merge(dask.config.config, ours)
    return config


def worker_environment(variables: Mapping[str, str]) -> dict[str, str]:
    """Variables that a worker needs before its interpreter starts."""
    caps: dict[str, str] = DASK_CONFIG["distributed"]["nanny"]["pre-spawn-environ"]
    return {**caps, **variables}


STARTS = 3  # tries, when a worker is killed while it starts
KILLED = "Nanny failed to start worker process"  # Dask's message for a worker that sent no message
CLOSE_S = 4.0  # s that the end of a worker may take
SPAWNING_S = 0.3  # s until the thread that spawns a worker has its process


def start(
    fleet: Fleet,
    memory: int,
    folder: Path,
    security: Security | None,
    dashboard: bool,
    engines: Mapping[str, str] | None,
    starting: list[SpecCluster],
    ended: threading.Event,
) -> SpecCluster:
    """A `distributed.SpecCluster` on the loopback. `memory`: bytes per worker; `engines`: what
    workers load; `folder`: for files of scheduler and workers. RunError if engines kill workers, or
    if shared memory cannot be written to.

    Another thread may end the start: it sets `ended`, and abandons what is in `starting`, which
    gets the cluster before it has any worker.
    """
    import distributed

    from . import nodes

    untyped: Any = distributed.SpecCluster

    class Begun(untyped):  # type: ignore[misc]
        async def _start(self) -> None:
            starting[:] = [self]
            await super()._start()

    both = {
        "host": "127.0.0.1",
        "protocol": "tls://" if security else "tcp://",
        "security": security,
        "local_directory": str(folder),
    }
    workers = _specs(fleet, **both, nthreads=1, worker_class=nodes.Worker, memory_limit=memory)
    scheduler = {
        "cls": distributed.Scheduler if dashboard else nodes.Scheduler,
        "options": {**both, "dashboard": dashboard, "dashboard_address": "127.0.0.1:0"},
    }
    _check_shared_memory()
    for tries in reversed(range(STARTS)):
        if ended.is_set():
            raise RunError("the cluster of this run was closed before it started")
        try:
            return Begun(
                workers,
                scheduler,
                security=security,
                silence_logs=logging.ERROR,
                shutdown_on_close=False,  # Dask would wait for an interrupted one at exit
            )
        except RuntimeError as error:
            if ended.is_set() or not tries or str(root(error)) != KILLED:
                raise
            if why := libraries.fatal(engines):
                raise RunError(why) from None
            log.warning("a worker was killed while it started; all workers start again")
    raise AssertionError("unreachable")


def _check_shared_memory() -> None:
    try:
        multiprocessing.get_context("spawn").Lock()  # as Dask makes for each worker
    except OSError as error:
        raise RunError(
            f"no worker can start, because /dev/shm cannot be written to ({error.strerror}): mount "
            "it writable and with some free space (containers: --tmpfs /dev/shm, or --shm-size)"
        ) from None


@contextmanager
def silent(ended: threading.Event) -> Iterator[None]:
    """Keep Dask from logging each step, tracebacks when the scheduler is lost, which the run's
    error says, and each worker that does not start because the run has `ended`."""

    def tells(record: logging.LogRecord) -> bool:
        error = record.exc_info and record.exc_info[1]
        return not (ended.is_set() or isinstance(error, asyncio.CancelledError))

    # Workers' folders are removed with the run's, and Dask would report each missing folder.
    logging.getLogger("distributed.diskutils").setLevel(logging.CRITICAL)
    nannies, clients = map(logging.getLogger, ("distributed.nanny", "distributed.client"))
    whole = logging.getLogger("distributed")
    levels = clients.level, whole.level
    nannies.addFilter(tells)
    clients.setLevel(logging.CRITICAL)
    whole.setLevel(max(whole.level, logging.WARNING))
    try:
        yield
    finally:
        nannies.removeFilter(tells)
        clients.setLevel(levels[0])
        whole.setLevel(levels[1])


def _specs(fleet: Fleet, **options: object) -> dict[str, JsonObject]:
    """By name. A replacement gets the same environment."""
    from distributed import Nanny

    kinds = {f"gpu-{number}": (GPU, device) for number, device in enumerate(fleet.pins)}
    kinds |= {f"cpu-{number}": (CPU, "") for number in range(fleet.cpus)}
    # Number GPUs as nvidia-smi does; CUDA's default puts the fastest first.
    order = os.environ.get("CUDA_DEVICE_ORDER", "PCI_BUS_ID")
    return {
        name: {
            "cls": Nanny,
            "options": {
                **options,
                "silence_logs": logging.ERROR,
                "resources": {kind: 1},
                "env": {gpus.VARIABLE: device, "CUDA_DEVICE_ORDER": order},
            },
        }
        for name, (kind, device) in kinds.items()
    }


def root(error: BaseException) -> BaseException:
    """The first cause: Dask wraps errors of workers several times."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


def processes(cluster: SpecCluster) -> list[psutil.Process]:
    """Worker processes of a cluster on this machine, and their children."""
    members = []
    for nanny in _nannies(cluster):
        with suppress(psutil.NoSuchProcess, TypeError):  # it has ended, or has no process yet
            process = psutil.Process(int(nanny.pid))
            if process.ppid() == os.getpid():  # else a pid of another machine
                members += [*process.children(recursive=True), process]
    return members


def end_now(cluster: SpecCluster) -> None:
    """Kill local workers and let their nannies notice: a scheduler that still believes in a dead or
    busy worker would ask it to retire, and wait.

    A nanny may be replacing a worker that died before (a signal to the process group), which would
    outlive the run's folders: that one is killed as soon as it exists.
    """
    from distributed import Status

    open_ = [n for n in _nannies(cluster) if n.status not in (Status.closed, Status.failed)]
    end = time.monotonic() + CLOSE_S
    while time.monotonic() < end and any(n.status != Status.closed for n in open_):
        _kill_for_good(cluster)
        time.sleep(0.02)


def abandon(clusters: Iterable[SpecCluster]) -> None:
    """End clusters that were interrupted while they started, which Dask does not."""
    for cluster in clusters:
        # Else each nanny that fails now prints a traceback.
        with suppress(AttributeError):  # its loop has not begun
            loop = cluster.loop.asyncio_loop  # type: ignore[union-attr]  # of Tornado
            loop.set_exception_handler(lambda loop, context: None)
    # A nanny does not yet have a process spawned a moment ago, which would find what it shares with
    # this process gone, and print a traceback. One whose worker has just started runs again.
    end = time.monotonic() + SPAWNING_S
    while time.monotonic() < end:
        for cluster in clusters:
            _kill_for_good(cluster)
        for child in psutil.Process().children():
            with suppress(psutil.Error):
                spawned = "spawn_main" in " ".join(child.cmdline())
                if spawned and VERSION_VARIABLE in child.environ():  # with that of workers
                    child.kill()
        time.sleep(0.02)


def _kill_for_good(cluster: SpecCluster) -> None:
    """Kill the workers that run now; their nannies start no others."""
    from distributed import Status

    for nanny in _nannies(cluster):
        if nanny.status not in (Status.closing, Status.closed, Status.failed):
            nanny.status = Status.closing_gracefully
    kill(processes(cluster))


def kill(victims: list[psutil.Process]) -> None:
    for process in victims:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _nannies(cluster: SpecCluster) -> list[Nanny]:
    """Nannies in this process; none for workers that are jobs or pods."""
    from distributed import Nanny, SpecCluster

    if not isinstance(cluster, SpecCluster):
        return []
    created = getattr(cluster, "_created", ())  # while they start
    workers: Any = {*cluster.workers.values(), *created}
    return [nanny for nanny in workers if isinstance(nanny, Nanny)]
