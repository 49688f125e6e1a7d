"""Workers that begin before the run has read its settings: importing libraries takes a worker as
long as the run needs until it starts one, and both can be done at once.

Each is a process that multiprocessing spawned as for a worker, and that waits for what it is to
run. A nanny that starts a worker takes one instead of spawning another: the nanny's process is sent
to it, with its pipes and environment variables. What no nanny takes is killed; it ends by itself if
this process dies.
"""

from __future__ import annotations

import io
import multiprocessing
import os
import pickle
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from multiprocessing import context, parent_process, reduction
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any, NamedTuple

import yaml

from . import spawning

MOST_WORKERS = 8  # of a run that is not told how many
MOST_BYTES = 256 << 10  # of settings


class Waiting(NamedTuple):
    process: Any  # of multiprocessing
    connection: Connection  # to it


waiting: list[Waiting] = []
_received: list[int] = []  # in a worker: its end of each pipe


class _Sent:
    """A pipe's end, by its place among those that are sent."""

    def __init__(self, place: int) -> None:
        self._place = place

    def detach(self) -> int:
        return _received[self._place]


class _Sending:
    """What multiprocessing hands the ends of pipes to, while it pickles a process."""

    DupFd = _Sent

    def __init__(self) -> None:
        self.pipes: list[int] = []

    def duplicate_for_child(self, pipe: int) -> int:
        self.pipes.append(pipe)
        return len(self.pipes) - 1


def _send(process: BaseProcess, connection: Connection) -> None:
    sending: Any = _Sending()
    pickled = io.BytesIO()
    context.set_spawning_popen(sending)
    try:
        reduction.dump(process, pickled)
    finally:
        context.set_spawning_popen(None)
    with connection:
        connection.send((pickled.getvalue(), dict(os.environ), len(sending.pipes)))
        for pipe in sending.pipes:
            reduction.send_handle(connection, pipe, 0)


def _wait(connection: Connection) -> None:
    """In a process that waits: become the process that comes."""
    with connection, suppress(EOFError):  # the one that would send it has died
        pickled, variables, pipes = connection.recv()
        _received[:] = [reduction.recv_handle(connection) for _ in range(pipes)]
        os.environ.clear()
        os.environ.update(variables)
        process, parent = pickle.loads(pickled), parent_process()
        assert parent is not None
        sys.exit(process._bootstrap(parent.sentinel))


def _popen(process: BaseProcess) -> Any:
    while waiting and spawning.NANNY in process.name:
        begun = waiting.pop()
        if begun.process.is_alive():
            _send(process, begun.connection)
            return begun.process._popen
        begun.connection.close()
    return _spawned(process)


_processes: Any = context.SpawnProcess
_spawned = _processes._Popen


def _begun() -> Waiting:
    connection, its_end = multiprocessing.Pipe()
    with its_end:
        process = _processes(target=_wait, args=(its_end,), name=spawning.NANNY, daemon=True)
        process.start()
    return Waiting(process, connection)


@contextmanager
def workers(path: str | None, out: str | None, sets: Sequence[str]) -> Iterator[None]:
    """Inside, workers of a run with these arguments of its command line are begun, if it is the
    first into OUT: a later one may have nothing for them to do."""
    try:
        if number := count(path, out, sets):
            environment = spawning.worker_environment(spawning.variables())
            with (
                spawning.interrupts_kept_from_workers(),
                spawning.without_main(),
                spawning.environment(environment),
                suppress(OSError),  # no process more: the run itself says so
            ):
                for _ in range(number):
                    waiting.append(_begun())
            _processes._Popen = staticmethod(_popen)
        yield
    finally:
        _processes._Popen = staticmethod(_spawned)
        end()


def end() -> None:
    """End those that no worker has become."""
    while waiting:
        begun = waiting.pop()
        begun.process.kill()
        begun.process.join()
        begun.process.close()
        begun.connection.close()


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
        if workers := given.get("workers"):
            return int(workers)
        from dask.system import CPU_COUNT  # respects cgroups; its import takes 0.2 s

        return int(min(CPU_COUNT, MOST_WORKERS))
    except Exception:  # any fault of the settings: the run itself says what is wrong
        return 0
