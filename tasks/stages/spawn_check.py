"""Checks that a worker process runs on itself: workers must be fresh interpreters.

fork copies locks that a thread of the parent holds, OpenMP pools and CUDA contexts: the child hangs
or crashes. So uttermill's workers are spawned, and each of them checks that it was.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import signal
import sys
from contextlib import suppress
from pathlib import Path

#: A fork shows its parent's command line; only a fresh interpreter shows one of these.
SPAWNED = "multiprocessing.spawn import spawn_main"
WORKER_COMMANDS = (
    "dask worker",
    "dask-worker",
    "distributed.cli",
    "dask cuda worker",
    "dask_worker",
)

_PR_SET_PDEATHSIG = 1
OF_WORKER, OF_ISOLATED = 300, 600  # scores of `die_first`


def command_line() -> str:
    """This process's command line from the kernel, words joined by spaces; Linux only."""
    return Path("/proc/self/cmdline").read_text(errors="replace").replace("\0", " ").strip()


def started_afresh(command: str) -> bool:
    """Whether a command line is that of a spawned process or of a separate Dask worker."""
    return SPAWNED in command or any(name in command for name in WORKER_COMMANDS)


def die_first(score: int) -> None:
    """Ask the kernel to kill this process before others when memory runs out: the main process
    outlives its workers, and a worker its isolated process. `score`: 0..1000; the main process has
    0. Does nothing outside Linux."""
    place = Path("/proc/self/oom_score_adj")
    with suppress(OSError, ValueError):
        if int(place.read_text()) < score:  # raising is always allowed, lowering is not
            place.write_text(str(score))


def die_with_parent(parent_pid: int | None = None) -> None:
    """Ask the kernel to kill this process when the parent dies, for whatever reason.

    Dask's own watch is a thread that needs the GIL, which native code may hold for minutes. The
    signal depends on the parent's *thread* that spawned us, which Dask keeps as long as the worker.
    Does nothing if no nanny spawned us (unless the parent is given), or outside Linux.
    """
    parent = multiprocessing.parent_process()
    if parent_pid is None and parent is not None:
        parent_pid = parent.pid
    if parent_pid is None or sys.platform != "linux":
        return
    ctypes.CDLL(None, use_errno=True).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0)
    if os.getppid() != parent_pid:  # it died before the call
        os._exit(1)


def ended(status: int) -> str:
    """How a process ended, for people: `signal 11 (SIGSEGV)`, or `exit status 1`."""
    if status >= 0:
        return f"exit status {status}"
    with suppress(ValueError):
        return f"signal {-status} ({signal.Signals(-status).name})"
    return f"signal {-status}"
