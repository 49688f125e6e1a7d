"""The queue of calls to one kind of worker, and how a call ends: with its result, with its own
error, or with the loss of its worker."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from bisect import insort
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from itertools import count
from typing import Any, Generic, NamedTuple, Protocol, TypeVar, cast

from ...tasks.base.errors import RunError
from ...tasks.base.logs import log

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
    """The worker was told to leave, and left before the call had ended: no item is to blame."""


class Overdue(Exception):
    """No result by the deadline."""


class NeverStarted(Exception):
    """The deadline passed while the call waited for a worker: no item is to blame."""


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

    WorkerLost, Overdue or NoWorkerLeft if there is neither; KeyboardInterrupt if `cancelled`.
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


# Runs each shard through its own chain of stages on threads, with no barrier between stages.

POLL_SECONDS = 0.5  # between two checks of the width; may delay a signal as long
INTERRUPT_SECONDS = 15.0  # that running chains have to end after an interrupt

Shard = TypeVar("Shard")
Result = TypeVar("Result")


def map_chains(
    shards: Sequence[Shard],
    chain: Callable[[Shard], Result],
    width: int | Callable[[], int],
    cancel: Callable[[], object] | None = None,
    drain: Callable[[], object] | None = None,
) -> list[Result]:
    """Return `chain(shard)` for each shard, in the order given; chains start in that order.

    `width` is the number of threads; a function is called again every POLL_SECONDS, so that
    threads are added when workers join. (When workers leave, the dispatcher holds calls back.)

    Each chain runs in a copy of the caller's context variables, so its Prefect tasks and flows
    belong to the caller's flow run. After an error no further shard starts, running ones finish,
    and the first error is raised; later ones are logged. `drain` (for example `Dispatcher.drain`)
    shortens that wait; after an interrupt, `cancel` does.
    """
    return _Chains(shards, chain, drain).run(width, cancel)


class _Chains(Generic[Shard, Result]):
    """The threads of one `map_chains`, and what they share."""

    def __init__(
        self,
        shards: Sequence[Shard],
        chain: Callable[[Shard], Result],
        drain: Callable[[], object] | None,
    ) -> None:
        self._shards, self._chain, self._drain = shards, chain, drain
        self._results: list[Result | None] = [None] * len(shards)
        self._errors: list[BaseException] = []
        self._waiting = iter(range(len(shards)))
        self._lock = threading.Lock()
        self._stop = threading.Event()
        self._ended: queue.SimpleQueue[None] = queue.SimpleQueue()
        # One copy per chain: what a chain sets must not reach the next chain. Copied here because a
        # thread starts with an empty context.
        self._contexts = [contextvars.copy_context() for _ in shards]
        self._threads: list[threading.Thread] = []

    def run(
        self, width: int | Callable[[], int], cancel: Callable[[], object] | None
    ) -> list[Result]:
        """As `map_chains`."""
        try:
            self._widen(width)
            finished = 0
            while finished < len(self._threads):
                with suppress(queue.Empty):
                    self._ended.get(timeout=POLL_SECONDS)
                    finished += 1
                if not finished:  # once one has ended there is nothing left for new threads
                    self._widen(width)
        except BaseException:
            self._stop.set()
            if cancel is not None:
                cancel()
            until = time.monotonic() + INTERRUPT_SECONDS
            for thread in self._threads:
                thread.join(max(0.0, until - time.monotonic()))
            raise
        if self._errors:
            raise _first(self._errors)
        return cast(list[Result], self._results)

    def _widen(self, width: int | Callable[[], int]) -> None:
        """Start the missing threads; more threads than shards would be idle."""
        wanted = width() if callable(width) else width
        while not self._stop.is_set() and len(self._threads) < min(wanted, len(self._shards)):
            # Daemons: a thread stuck in a dead connection must not keep the process alive.
            name = f"chain-{len(self._threads)}"
            thread = threading.Thread(target=self._work, name=name, daemon=True)
            self._threads.append(thread)
            thread.start()

    def _work(self) -> None:
        """Run chains until none is left."""
        try:
            while not self._stop.is_set():
                with self._lock:
                    index = next(self._waiting, -1)
                if index < 0:
                    return
                context = self._contexts[index]
                context.run(begin_chain)
                self._results[index] = context.run(self._chain, self._shards[index])
        except BaseException as error:  # raised again in the caller's thread
            with self._lock:
                self._errors.append(error)
            self._stop.set()
            if self._drain is not None:
                self._drain()
        finally:
            self._ended.put(None)


def _first(errors: Sequence[BaseException]) -> BaseException:
    """The error to raise; the others are logged."""
    # A shard that was not begun may report before the shard whose error stopped it.
    first, *others = sorted(errors, key=lambda error: isinstance(error, NotBegun))
    for other in others:
        if not isinstance(other, NotBegun):
            log.error("another shard failed too: %s: %s", type(other).__name__, other)
    return first
