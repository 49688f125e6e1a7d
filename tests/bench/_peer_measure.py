"""Measures a command with all the processes that it starts: CPU, wall time, memory, exit code."""

from __future__ import annotations

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
SETTLE_S = 0.5  # a server that used no CPU for this long counts as asleep
SUBREAPER = 36  # PR_SET_CHILD_SUBREAPER
SERVER = "_server_child.py"  # a local Prefect server's program


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

    Children that outlive their parents are adopted here, so that their CPU time counts, too: for
    example that of a Prefect server that stays for the next run, until it sleeps.
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


def kept_servers() -> list[psutil.Process]:
    """Prefect servers that runs measured here have left for the next one."""
    servers = []
    for child in psutil.Process().children():
        with suppress(psutil.Error):  # it has ended
            if any(SERVER in word for word in child.cmdline()):
                servers.append(child)
    return servers


def end_kept_servers() -> None:
    for server in kept_servers():
        server.terminate()
        server.wait()


def _cpu_seconds() -> float:
    """User and system time of all children, ended or still running."""
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    living = 0.0
    for server in kept_servers():
        with suppress(psutil.Error):
            living += sum(server.cpu_times()[:2])
    return ended.ru_utime + ended.ru_stime + living


def _reap() -> None:
    """Wait for adopted children: workers of a killed run take a moment to end, and a kept server
    takes one to fall asleep."""
    until = time.monotonic() + 20
    asleep = -1.0
    while time.monotonic() < until:
        try:
            if os.waitpid(-1, os.WNOHANG)[0]:
                continue
        except ChildProcessError:
            return
        cpu = _cpu_seconds()
        if cpu == asleep and len(psutil.Process().children()) == len(kept_servers()):
            return
        asleep = cpu
        time.sleep(SETTLE_S if kept_servers() else 0.05)
