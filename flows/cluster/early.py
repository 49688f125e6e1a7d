"""Workers that begin before the run has read its settings: importing libraries takes a worker as
long as the run needs until it starts one, and both can be done at once.

Each is a process that multiprocessing spawned as for a worker, up to the point where it waits for
what it is to run. A nanny that starts a worker takes one instead of spawning another; its pipes and
environment variables are sent to it. What no nanny takes is killed, by the kernel if this process
dies.
"""

from __future__ import annotations

import io
import multiprocessing.spawn
import os
import pickle
import signal
import socket
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from multiprocessing import context, popen_fork, reduction, resource_tracker, util
from multiprocessing.process import BaseProcess
from typing import Any

import yaml

from ...tasks.base.environment import PARENT_VARIABLE
from . import spawning

MOST_WORKERS = 8  # of a run that is not told how many
MOST_BYTES = 256 << 10  # of settings
waiting: list[_Waiting] = []
_received: list[int] = []  # in a worker: its end of each pipe


class _Waiting:
    """A process that waits for what it is to run. `sentinel` ends when it does."""

    def __init__(self) -> None:
        self.sentinel, its_end = os.pipe()
        it_reads, self.pipe = os.pipe()
        self.socket, its_socket = socket.socketpair()
        self.number = its_socket.fileno()  # in the process, too
        tracker: Any = resource_tracker.getfd()
        command = multiprocessing.spawn.get_command_line(tracker_fd=tracker, pipe_handle=it_reads)
        passed = (tracker, its_end, it_reads, self.number)
        data = _dumped(multiprocessing.spawn.get_preparation_data(spawning.NANNY), self)
        with closing(its_socket):
            executable = os.fsencode(multiprocessing.spawn.get_executable())
            self.pid = util.spawnv_passfds(executable, command, sorted(passed))
        _close(its_end, it_reads)
        os.write(self.pipe, data)

    def is_alive(self) -> bool:
        return os.waitpid(self.pid, os.WNOHANG) == (0, 0)

    def end(self) -> None:
        with suppress(ProcessLookupError, ChildProcessError):
            os.kill(self.pid, signal.SIGKILL)
            os.waitpid(self.pid, 0)
        self.socket.close()
        _close(self.sentinel, self.pipe)


def _close(*descriptors: int) -> None:
    for descriptor in descriptors:
        os.close(descriptor)


def _dumped(what: object, popen: Any) -> bytes:
    """Pickled for a process that `popen` is to stand for."""
    file = io.BytesIO()
    context.set_spawning_popen(popen)
    try:
        reduction.dump(what, file)
    finally:
        context.set_spawning_popen(None)
    return file.getvalue()


class _Sent:
    """A pipe's end, by its place among those that are sent."""

    def __init__(self, place: int) -> None:
        self._place = place

    def detach(self) -> int:
        return _received[self._place]


class _Handed:
    """Unpickled in the waiting process, it is what that runs."""

    def __init__(self, number: int, pipes: int, what: bytes) -> None:
        self._given = number, pipes, dict(os.environ), what

    def __reduce__(self) -> tuple[Any, ...]:
        return _taken, self._given


def _taken(number: int, pipes: int, variables: dict[str, str], what: bytes) -> object:
    with socket.socket(fileno=number) as sent:
        _received[:] = reduction.recvfds(sent, pipes)
    os.environ.clear()
    os.environ.update(variables)
    return pickle.loads(what)


class _Popen(popen_fork.Popen):
    """multiprocessing's handle of a process that was waiting."""

    method = "spawn"
    DupFd = _Sent

    def __init__(self, process: BaseProcess, begun: _Waiting) -> None:
        self._begun, self._pipes = begun, list[int]()
        super().__init__(process)

    def duplicate_for_child(self, fd: int) -> int:
        self._pipes.append(fd)
        return len(self._pipes) - 1

    def _launch(self, process: BaseProcess) -> None:
        begun, what = self._begun, _dumped(process, self)
        with closing(begun.socket):
            reduction.sendfds(begun.socket, self._pipes)
        with open(begun.pipe, "wb", closefd=False) as pipe:
            pickle.dump(_Handed(begun.number, len(self._pipes), what), pipe)
        self.pid, self.sentinel = begun.pid, begun.sentinel
        self.finalizer = util.Finalize(self, _close, (begun.sentinel, begun.pipe))


def _popen(process: BaseProcess) -> Any:
    while waiting and spawning.NANNY in process.name:
        begun = waiting.pop()
        if begun.is_alive():
            return _Popen(process, begun)
        begun.end()
    return _spawned(process)


_processes: Any = context.SpawnProcess
_spawned = _processes._Popen


@contextmanager
def workers(path: str | None, out: str | None, sets: Sequence[str]) -> Iterator[None]:
    """Inside, workers of a run with these arguments of its command line are begun, if it is the
    first into OUT: a later one may have nothing for them to do."""
    _processes._Popen = staticmethod(_popen)
    try:
        if number := count(path, out, sets):
            variables = {**spawning.variables(), PARENT_VARIABLE: str(os.getpid())}
            environment = spawning.worker_environment(variables)
            with (
                spawning.interrupts_kept_from_workers(),
                spawning.without_main(),
                spawning.environment(environment),
                suppress(OSError),  # no process more: the run itself says so
            ):
                waiting.extend(_Waiting() for _ in range(number))
        yield
    finally:
        _processes._Popen = staticmethod(_spawned)
        end()


def end() -> None:
    """End those that no worker has become."""
    while waiting:
        waiting.pop().end()


def count(path: str | None, out: str | None, sets: Sequence[str]) -> int:
    """How many workers the run will start at once; 0 if that cannot be told, or it will not."""
    try:
        text = ""
        if path:
            with open(path, encoding="utf-8") as file:
                text = file.read(MOST_BYTES)
        data = yaml.safe_load(text) or {}
        given = {**data, **data.get("cluster", {}), "out": out or data.get("out")}
        for name, _, value in (assignment.partition("=") for assignment in sets):
            if name in ("out", "cluster.kind", "cluster.workers"):
                given[name.removeprefix("cluster.")] = yaml.safe_load(value)
        new = given["out"] and not os.path.exists(os.path.join(given["out"], "manifests"))
        if not new or "://" in given["out"] or given.get("kind", "local") != "local":
            return 0
        from dask.system import CPU_COUNT  # respects cgroups

        return int(given.get("workers") or min(CPU_COUNT, MOST_WORKERS))
    except (
        AttributeError,
        LookupError,
        OSError,
        RecursionError,
        TypeError,
        ValueError,
        yaml.YAMLError,
    ):
        return 0  # the run itself says what is wrong
