"""How Dask's workers start and end: fresh, capped, preloaded processes that leave nothing."""

from __future__ import annotations

import fcntl
import logging
import multiprocessing.spawn
import os
import shutil
import tempfile
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from importlib.metadata import version
from pathlib import Path
from typing import Any

import psutil

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
        "diagnostics": {"nvml": False},
        "admin": {"tick": {"limit": "10 minutes"}},
    }
}

CLOSE_S = 4.0  # s that a worker's end may take


def configuration() -> dict[str, Any]:
    """`DASK_CONFIG` by dotted keys, with the version that a worker must have."""
    flat = dict(_flat(DASK_CONFIG))
    flat["distributed.nanny.pre-spawn-environ.UTTERMILL_VERSION"] = version("uttermill")
    return flat


def environ() -> dict[str, str]:
    """What a worker's environment holds before its interpreter starts."""
    caps: dict[str, str] = DASK_CONFIG["distributed"]["nanny"]["pre-spawn-environ"]
    return {**caps, "UTTERMILL_VERSION": version("uttermill")}


@contextmanager
def environment(values: dict[str, str]) -> Iterator[None]:
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


class RunDirectory:
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


def local_processes(cluster: Any) -> list[psutil.Process]:
    """Worker processes of a local cluster and their children."""
    found = []
    for nanny in getattr(cluster, "workers", {}).values():
        with suppress(psutil.NoSuchProcess, TypeError, AttributeError):  # no process of ours
            process = psutil.Process(int(nanny.pid))
            if process.ppid() != os.getpid():
                continue  # a number from another machine
            found += [*process.children(recursive=True), process]
    return found


def end_now(cluster: Any) -> None:
    """Kill local workers and let their nannies see it: a scheduler that still believes in a dead
    or busy worker would ask it to retire, and wait.

    A worker may have died before (a signal to the whole process group), and its nanny be starting
    another one, which would outlive the run's folders: it is killed as soon as it is there.
    """
    from distributed import Nanny, Status

    nannies = [n for n in getattr(cluster, "workers", {}).values() if isinstance(n, Nanny)]
    open_ = [n for n in nannies if n.status not in (Status.closed, Status.failed)]
    for nanny in open_:
        nanny.status = Status.closing_gracefully  # else it would start a new worker
    end = time.monotonic() + CLOSE_S
    while time.monotonic() < end and any(n.status != Status.closed for n in open_):
        kill(local_processes(cluster))
        time.sleep(0.02)


def abandon(clusters: Iterable[Any]) -> None:
    """End clusters that an interrupt met while they started: Dask does not, and at exit it waits
    for their workers for ten seconds, or prints that one of them has a wrong status."""
    from distributed import Status

    # Their folders go with the run's; that Dask then finds them gone is no news either.
    logging.getLogger("distributed.diskutils").setLevel(logging.CRITICAL)
    for cluster in clusters:
        cluster.shutdown_on_close = False
        # That its nannies fail now is no news: else each one is printed with a traceback.
        with suppress(AttributeError):  # not even a loop has begun
            cluster.loop.asyncio_loop.set_exception_handler(lambda loop, context: None)
        for nanny in cluster.workers.values():
            nanny.status = Status.closing_gracefully  # else it would start a new worker
        kill(local_processes(cluster))


def kill(processes: list[psutil.Process]) -> None:
    for process in processes:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _flat(config: dict[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted keys: `dask.config.set` would replace a nested mapping as a whole."""
    for key, value in config.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield f"{prefix}{key}", value


_preparation = multiprocessing.spawn.get_preparation_data


def _without_main(name: str) -> dict[str, Any]:
    data: dict[str, Any] = _preparation(name)
    if "Nanny" in name:
        for key in ("init_main_from_name", "init_main_from_path"):
            data.pop(key, None)
    return data


def forget_main() -> None:
    """Keep a worker from importing the flow's `__main__` again: under a deployment that is
    Prefect (45 MB and a second each), and a user's script without a main guard would start a
    cluster of its own. Only Dask's workers are concerned; they get importable functions."""
    multiprocessing.spawn.get_preparation_data = _without_main
