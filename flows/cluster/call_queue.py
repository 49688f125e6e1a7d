"""The queue of calls to one kind of worker, and how a call ends: with its result, with its own
error, or with the loss of its worker."""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any, NamedTuple, Protocol

from tasks.base.errors import RunError

LOST = "scheduler-connection-lost"  # Dask's reason of a cancelled call

_numbers = count()
_chain: ContextVar[int] = ContextVar("chain")


def begin_chain() -> None:
    """From here on, calls in this context belong to a new chain: see `CallQueue`."""
    _chain.set(next(_numbers))


class Future(Protocol):
    """The part of `distributed.Future` that the dispatcher needs."""

    def result(self, timeout: float | None = None) -> Any: ...
    def done(self) -> bool: ...
    def cancel(self) -> object: ...


class _Place(NamedTuple):
    chain: int
    number: int  # of two places of one chain, the older goes first
    turn: threading.Event  # set while it is at the head


class CallQueue:
    """Calls of chains that began earlier go first.

    So a shard's later stages do not wait for the first stages of all other shards, which would
    leave GPU workers idle at the start; and retries go before calls that were never tried.
    """

    def __init__(self, kind: str) -> None:
        self.kind = kind
        self.running: set[Future] = set()
        self.ended = threading.Event()  # a call has ended since the head of the queue last looked
        self.submitting = threading.Lock()
        self._lock = threading.Lock()
        self._waiting: list[_Place] = []

    @contextmanager
    def place(self) -> Iterator[threading.Event]:
        """A place in the queue; its event is set while it is at the head."""
        number = next(_numbers)
        place = _Place(_chain.get(number), number, threading.Event())
        with self._lock:
            if self._waiting:
                self._waiting[0].turn.clear()
            insort(self._waiting, place, key=lambda waiting: waiting[:2])
            self._waiting[0].turn.set()
        try:
            yield place.turn
        finally:
            with self._lock:
                self._waiting.remove(place)
                if self._waiting:
                    self._waiting[0].turn.set()

    def started(self, future: Future) -> None:
        with self._lock:
            self.running.add(future)

    def finished(self, future: Future) -> None:
        with self._lock:
            self.running.discard(future)
        self.ended.set()

    def length(self) -> int:
        """Calls that run or wait."""
        with self._lock:
            return len(self.running) + len(self._waiting)

    def snapshot(self) -> list[Future]:
        with self._lock:
            return list(self.running)


class WorkerLost(Exception):
    """The worker died or was restarted during the call; `timed_out`: at the call's deadline."""

    def __init__(self, what: str, timed_out: bool = False) -> None:
        super().__init__(what)
        self.timed_out = timed_out


class WorkerDied(WorkerLost):
    """The worker's process ended during the call; `worker`: its address."""

    def __init__(self, worker: str) -> None:
        super().__init__("its worker died")
        self.worker = worker


class WorkerLeft(Exception):
    """The worker had been told to leave, and did before the call had ended: nothing is to blame."""


class Overdue(Exception):
    """No result by the deadline."""


class NeverStarted(Exception):
    """The deadline passed while the call waited for a worker: nothing is to blame."""


class NotBegun(RunError):
    """A call that was not started because the run is ending for another error."""


class NoWorkerLeft(RunError):
    """No worker has joined, and Dask has given up waiting for one."""


def lost_scheduler() -> RunError:
    return RunError(
        "the connection to the Dask scheduler was lost; finished work is kept: see that the "
        "scheduler runs and can be reached, and run again"
    )


@dataclass
class Losses:
    """Deaths and timeouts on the workers of a run, for its summary."""

    deaths: int = 0
    timeouts: int = 0
    isolated: int = 0


def result_of(future: Future, seconds: float, cancelled: threading.Event) -> Any:
    """The result of a submitted call, or the error that it raised.

    WorkerLost, Overdue or NoWorkerLeft if it gave neither; KeyboardInterrupt if `cancelled`.
    """
    from concurrent.futures import CancelledError

    from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

    if cancelled.is_set():  # it may have been set between submit and here
        future.cancel()
    try:
        try:
            return future.result(timeout=seconds)
        except TimeoutError:
            if future.done():  # the function's own TimeoutError, or it finished just now
                return future.result()
    except KilledWorker as death:
        raise WorkerDied(death.last_worker.address) from None
    except MemoryError as error:
        raise WorkerLost(f"it ran out of memory ({error})") from None
    except (NoWorkerError, NoValidWorkerError) as error:
        raise NoWorkerLeft(f"the Dask cluster has no worker left: {error}") from error
    except CancelledError as error:
        if cancelled.is_set():
            raise KeyboardInterrupt from None
        if LOST in str(error):
            raise lost_scheduler() from None
        raise RunError(f"the Dask cluster dropped the work: {error}") from error
    raise Overdue
