"""Ends all worker processes of a local cluster at once."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Iterable
from contextlib import suppress
from typing import TYPE_CHECKING

import psutil

from tasks.base.environment import VERSION_VARIABLE

if TYPE_CHECKING:
    from distributed import Nanny, SpecCluster

CLOSE_S = 4.0  # s that the end of a worker may take
SPAWNING_S = 0.3  # s in which the thread that spawns a worker comes to know its process


def processes(cluster: SpecCluster) -> list[psutil.Process]:
    """Worker processes of a cluster on this machine, and their children."""
    found = []
    for nanny in _nannies(cluster):
        with suppress(psutil.NoSuchProcess, TypeError):  # it has ended, or has no process yet
            process = psutil.Process(int(nanny.pid))
            if process.ppid() != os.getpid():
                continue  # a pid of another machine
            found += [*process.children(recursive=True), process]
    return found


def end_now(cluster: SpecCluster) -> None:
    """Kill local workers and let their nannies notice: a scheduler that still believes in a dead
    or busy worker would ask it to retire, and wait.

    A worker may have died before (a signal to the whole process group) while its nanny starts
    another one, which would outlive the run's folders: that one is killed as soon as it exists.
    """
    from distributed import Status

    open_ = [n for n in _nannies(cluster) if n.status not in (Status.closed, Status.failed)]
    for nanny in open_:
        nanny.status = Status.closing_gracefully  # else it would start a new worker
    end = time.monotonic() + CLOSE_S
    while time.monotonic() < end and any(n.status != Status.closed for n in open_):
        kill(processes(cluster))
        time.sleep(0.02)


def abandon(clusters: Iterable[SpecCluster]) -> None:
    """End clusters that were interrupted while they started.

    Dask does not end them: at exit it waits ten seconds for their workers, or prints that one of
    them has a wrong status.
    """
    from distributed import Status

    # Their folders are removed with the run's, and Dask would report each missing folder at exit.
    logging.getLogger("distributed.diskutils").setLevel(logging.CRITICAL)
    for cluster in clusters:
        cluster.shutdown_on_close = False
        # Else each nanny that fails now is printed with a traceback.
        with suppress(AttributeError):  # its loop has not begun
            loop = cluster.loop.asyncio_loop  # type: ignore[union-attr]  # of Tornado
            loop.set_exception_handler(lambda loop, context: None)
        for nanny in cluster.workers.values():
            nanny.status = Status.closing_gracefully  # else it would start a new worker
        kill(processes(cluster))
    # A process that was spawned a moment ago is not known to its nanny yet. It would find what it
    # shares with this one gone, and print a traceback.
    end = time.monotonic() + SPAWNING_S
    while time.monotonic() < end:
        kill(_just_spawned())
        time.sleep(0.02)


def _just_spawned() -> list[psutil.Process]:
    """Children that were spawned with the environment of workers."""
    found = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):
            if "spawn_main" in " ".join(child.cmdline()) and VERSION_VARIABLE in child.environ():
                found.append(child)
    return found


def kill(found: list[psutil.Process]) -> None:
    for process in found:
        with suppress(psutil.NoSuchProcess):
            process.kill()


def _nannies(cluster: SpecCluster) -> list[Nanny]:
    """Nannies in this process; none for workers that are jobs or pods."""
    from distributed import Nanny, SpecCluster

    if not isinstance(cluster, SpecCluster):
        return []
    return [nanny for nanny in cluster.workers.values() if isinstance(nanny, Nanny)]
