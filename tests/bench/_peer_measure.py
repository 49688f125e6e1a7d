"""Measures a command with all the processes that it starts: CPU, wall time, memory, exit code."""

import compileall
import ctypes
import os
import resource
import signal
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import psutil

POLL_S = 0.1  # between two samples of the memory
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of a command. `cpu`: user + system, s; `peak_mb`: largest RSS of all processes
    together; `most_mb`: largest RSS of one of them."""

    cpu: float
    wall: float
    peak_mb: float
    most_mb: float
    exit: int
    said: str


class _Memory(threading.Thread):
    def __init__(self, root: int) -> None:
        super().__init__(daemon=True)
        self._root, self.over = root, threading.Event()
        self.peak = self.most = 0

    def run(self) -> None:
        while not self.over.wait(POLL_S):
            held = [0]
            with suppress(psutil.Error):
                top = psutil.Process(self._root)
                for process in [top, *top.children(recursive=True)]:
                    with suppress(psutil.Error):
                        held.append(process.memory_info().rss)
            self.peak, self.most = max(self.peak, sum(held)), max(self.most, *held)


def measured(
    command: Sequence[str],
    environment: Mapping[str, str] | None = None,
    kill_after: float | None = None,
    folder: Path | None = None,
) -> Cost:
    """Run a command to its end, or kill it and its process group with -9 after some seconds.

    Children that outlive their parents are adopted here, so that their CPU time counts, too.
    """
    _compile_ours()
    ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)
    before = _cpu_seconds()
    began = time.monotonic()
    process = subprocess.Popen(
        command,
        env={**_environment(), **(environment or {})},
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        text=True,
        errors="replace",
    )
    memory = _Memory(process.pid)
    memory.start()
    try:
        said, _ = process.communicate(timeout=kill_after)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        said, _ = process.communicate()
    wall = time.monotonic() - began
    memory.over.set()
    memory.join()
    _reap()
    cpu = _cpu_seconds() - before
    mb = (memory.peak / 2**20, memory.most / 2**20)
    return Cost(round(cpu, 2), round(wall, 2), round(mb[0]), round(mb[1]), process.returncode, said)


@cache
def _compile_ours() -> None:
    """Write the bytecode of this tree, once.

    The peers' packages got theirs when they were installed, and so does ours where it is installed.
    From a checkout without bytecode, each process would compile our modules anew.
    """
    root = Path(__file__).parents[2]
    for name in ("flows", "tasks", "tests/bench"):
        compileall.compile_dir(root / name, quiet=2)


def _environment() -> dict[str, str]:
    """This process's environment, but with bytecode written: otherwise a peer's modules that are
    not compiled yet would be compiled again in each process."""
    return {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}


def _cpu_seconds() -> float:
    """User and system time of all children that have ended."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def _reap() -> None:
    """Wait for adopted children: workers of a killed run take a moment to end."""
    until = time.monotonic() + 20
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        time.sleep(0.05)
