"""Sends calls to the workers, at most one to each, and survives their deaths.

Dask's own queue does not do, as tried with Dask 2026.8 on two workers, `allowed-failures: 0`, and
23 calls beside one that kills its worker. With `worker-saturation: 1.0` the scheduler keeps calls
back until a worker is free, and all 23 came through; but it hands out calls with restrictions as
they come, and blames all that a dead worker had been given: with `resources={"CPU": 1}` two died. A
run with GPU workers, or beside a worker that may not work for it, restricts its calls. Besides,
Dask does not tell a client when a worker takes a call, which is when its deadline begins; and to
drain, or to run a call with nothing beside it, queued calls would have to be taken back.
"""

from __future__ import annotations

import threading
import time
from bisect import insort
from collections import defaultdict
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass, replace
from functools import partial
from itertools import count
from typing import Any, Generic, TypeVar

from ...tasks.accounting.metrics import Trace
from ...tasks.base.counting import counted
from ...tasks.base.errors import KilledFromOutside, RunError
from ...tasks.base.logs import log
from ...tasks.stages import isolate
from .worker_counts import CPU

Result = TypeVar("Result")

SHARED_TRIES = 2  # deaths before the shard's items run one by one
ISOLATED_TRIES = 4  # deaths of the worker itself while it isolates; more are implausible
MOST_LEFT = 10  # workers that leave during a call, before it counts as taking too long
MOST_KILLED = 3  # calls killed from outside although they ran alone
POLL_SECONDS = 0.05  # between two checks for an idle worker by the call whose turn it is
LOOK_SECONDS = 2.0  # between two checks whether a call has a worker
QUEUE_SECONDS = 0.5  # after which another call checks whether its turn has come
LOST = "scheduler-connection-lost"  # Dask's reason of a cancelled call

_numbers = count()
_chain: ContextVar[int] = ContextVar("chain")


def begin_chain() -> None:
    """From here on, calls in this context belong to a new chain: see `Dispatcher`."""
    _chain.set(next(_numbers))


class WorkerLost(Exception):
    """The worker died or was restarted during the call; `address`: of the one that died."""

    def __init__(self, what: str, address: str | None = None) -> None:
        super().__init__(what)
        self.address = address


class TimedOut(WorkerLost):
    """The worker was restarted at the call's deadline."""


class Overdue(Exception):
    """No result by the deadline."""


class NotBegun(RunError):
    """A call that was not started because the run is ending for another error."""


def lost_scheduler() -> RunError:
    return RunError(
        "the connection to the Dask scheduler was lost; finished work is kept: see that the "
        "scheduler runs and can be reached, and run again"
    )


@dataclass
class Losses:
    deaths: int = 0
    timeouts: int = 0
    isolated: int = 0


@dataclass(frozen=True, slots=True)
class _Call(Generic[Result]):
    fn: Callable[..., Result]
    args: tuple[object, ...]
    kind: str
    trace: Trace


class Dispatcher:
    """Runs calls on the workers of a `Cluster`, at most one per worker, so that a death has one
    suspect.

    The number of workers is read before each call. Kinds of workers have separate queues: calls
    that wait for a GPU do not hold up others. In each, calls of chains that began earlier go first:
    a shard's later stages do not wait for the first stages of all other shards, which would leave
    GPU workers idle at the start; and retries go before calls that were never tried.

    After a first death the call runs again; after a second death or a missed deadline its items run
    one by one in disposable processes; if one of these is killed from outside, alone, with no other
    call running. Errors that the function raises reach the caller unchanged.
    """

    def __init__(self, cluster: Any) -> None:
        self.losses = Losses()
        self._cluster = cluster
        self._state = threading.Condition()  # guards what follows
        self._waiting: dict[str, list[tuple[int, int]]] = defaultdict(list)  # chain, number; sorted
        self._running: dict[str, int] = defaultdict(int)
        self._futures: set[Any] = set()
        self._no_worker: RunError | None = None
        self._cancelled = threading.Event()
        self._draining = threading.Event()
        self._alone = False  # a call runs, or waits to run, with no other beside it
        self._one_alone = threading.Lock()
        self._killed = 0  # calls killed as a whole, even alone

    def run(
        self,
        fn: Callable[..., Result],
        *args: object,
        within: Callable[[bool], float],
        isolates: bool = True,
        name: str | None = None,
        kind: str = CPU,
        trace: Trace | None = None,
    ) -> Result:
        """Return `fn(*args)`, run on a worker of `kind`.

        With `isolate=True`, `fn` runs its items one by one, each with a limit of its own;
        `isolates=False`: it has no such argument, and is retried as many times in total.
        `within(isolated)` is the deadline in wall seconds, `name` (default: the last argument) for
        messages; attempts, deaths and times are recorded in `trace`.
        """
        what = name if name is not None else str(args[-1]) if args else fn.__name__
        tries = SHARED_TRIES + ISOLATED_TRIES
        trace = trace if trace is not None else Trace()
        trace.wanted = time.time()
        call = _Call(fn, args, kind, trace)
        for attempt in range(1, (SHARED_TRIES if isolates else tries) + 1):
            try:
                return self._attempt(call, within(False))
            except WorkerLost as loss:
                # A call that hangs does not get the same time once more.
                last = isolates and (attempt == SHARED_TRIES or isinstance(loss, TimedOut))
                then = "its items run one by one now" if last else "it runs again"
                log.warning("%s: %s%s", what, loss, f"; {then}" if attempt < tries else "")
                if last:
                    break
        if not isolates:
            raise _ended(what, tries)
        trace.isolated = True
        with self._state:
            self.losses.isolated += 1
        one_by_one, alone = partial(fn, isolate=True), False
        call = replace(call, fn=one_by_one)
        for _ in range(ISOLATED_TRIES):
            try:
                return (self._attempt_alone if alone else self._attempt)(call, within(True))
            except WorkerLost as loss:
                log.warning("%s, item by item: %s", what, loss)
            except KilledFromOutside as error:
                log.warning("%s; it runs again with nothing beside it", error)
                if alone:
                    self._killed += 1
                    if self._killed == MOST_KILLED:  # no item is to blame
                        raise
                again_so = isolate.resigned if alone else isolate.alone
                call, alone = replace(call, fn=partial(again_so, one_by_one)), True
        raise _ended(what, tries, ", even with its items run one by one")

    def once(self, fn: Callable[..., Result], *args: object, seconds: float) -> Result:
        """`fn(*args)` on a CPU worker, tried once. RunError if the worker dies, if the call takes
        more than `seconds`, or if it raises anything."""
        try:
            return self._attempt(_Call(fn, args, CPU, Trace()), seconds)
        except RunError:
            raise
        except WorkerLost as loss:
            raise RunError(f"{fn.__name__}: {loss}") from loss
        except Exception as error:  # any error raised by the call
            raise RunError(f"{fn.__name__}: {type(error).__name__}: {error}") from error

    def wanted(self) -> int:
        with self._state:
            return sum(map(len, self._waiting.values())) + sum(self._running.values())

    def cancel(self) -> None:
        """End running and queued calls with KeyboardInterrupt and start no more."""
        self._cancelled.set()
        with self._state:
            futures = list(self._futures)
            self._state.notify_all()
        for future in futures:
            future.cancel()

    def drain(self) -> None:
        """Let running calls finish; queued and later ones raise NotBegun. A call that takes the
        place of the failed one at this moment may still start."""
        self._draining.set()

    def _attempt(self, call: _Call[Result], seconds: float, alone: bool = False) -> Result:
        """One try of a call; WorkerLost if its worker dies or is restarted. `alone`: it does not
        wait for its turn."""
        trace = call.trace
        trace.attempts += 1
        began = time.time()
        if retry := trace.attempts > 1:
            trace.wanted = began
        left = 0
        while True:
            self._take_turn(call.kind, retry or left > 0, alone)
            future: Any = None
            try:
                future = self._cluster.submit(call.fn, *call.args, kind=call.kind)
                with self._state:
                    self._futures.add(future)
                result: Result = self._result(future, seconds, call.kind)
                return result
            except Overdue:
                if self._cluster.restart_worker_of(future):
                    self._lose(trace, began, timeouts=1)
                    what = f"no result after {seconds:.0f} s, so its worker was restarted"
                    raise TimedOut(what) from None
                log.warning("no worker took a shard for %.0f s; it is submitted again", seconds)
            except WorkerLost as loss:
                left += 1
                # Asked before another call may take the dead worker's place.
                was_leaving = loss.address is not None and self._cluster.left(loss.address)
                if not was_leaving or left > MOST_LEFT:
                    self._lose(trace, began, deaths=loss.address is not None)
                    raise
                trace.lost += time.time() - began
                log.info("a worker was told to leave and did not end its call; it runs again")
                began = time.time()
            finally:
                with self._state:
                    self._futures.discard(future)
                    self._running[call.kind] -= 1
                    self._state.notify_all()

    def _lose(self, trace: Trace, began: float, deaths: int = 0, timeouts: int = 0) -> None:
        trace.deaths += 1
        trace.lost += time.time() - began
        with self._state:
            self.losses.deaths += deaths
            self.losses.timeouts += timeouts

    def _attempt_alone(self, call: _Call[Result], seconds: float) -> Result:
        """`_attempt` with no other call running, on workers that hold no models in memory."""
        with self._one_alone:
            self._alone = True
            try:
                while any(self._running.values()):  # none begins any more
                    if self._cancelled.wait(POLL_SECONDS):
                        raise KeyboardInterrupt
                self._cluster.renew()
                return self._attempt(call, seconds, alone=True)
            finally:
                self._alone = False

    def _take_turn(self, kind: str, retry: bool, alone: bool) -> None:
        """Wait until a worker of a kind is idle, and no call goes first. `retry`: this one has
        begun before, and may although the run drains; `alone`: no other runs, or may begin.

        Two calls that shared a worker while a dead one is replaced would die, or miss their
        deadlines, together.
        """
        number = next(_numbers)
        place = (_chain.get(number), number)
        with self._state:
            insort(self._waiting[kind], place)
        try:
            while True:
                if self._cancelled.is_set():
                    raise KeyboardInterrupt
                if self._no_worker is not None:
                    raise self._no_worker
                if self._draining.is_set() and not retry:
                    raise NotBegun("not started: another shard failed first")
                next_one = alone or self._is_next(kind, place)
                # Without the lock, as the scheduler may be asked.
                live = self._live(kind) if next_one else 0
                with self._state:
                    room = self._running[kind] < live
                    if room and (alone or self._is_next(kind, place)):
                        self._running[kind] += 1
                        return
                    self._state.wait(POLL_SECONDS if next_one else QUEUE_SECONDS)
        finally:
            with self._state:
                self._waiting[kind].remove(place)
                self._state.notify_all()

    def _live(self, kind: str) -> int:
        """Workers of a kind; RunError, for all other calls too, if none comes. Dask's scheduler,
        which others may have started, would wait as long as its own settings say, and say
        nothing."""
        try:
            return int(self._cluster.live(kind))
        except RunError as error:
            self._no_worker = error
            raise

    def _is_next(self, kind: str, place: tuple[int, int]) -> bool:
        return self._waiting[kind][0] == place and not self._alone

    def _result(self, future: Any, seconds: float, kind: str) -> Any:
        """The result of a submitted call, or the error that it raised; WorkerLost or Overdue if
        there is neither; KeyboardInterrupt if the run is cancelled, RunError if it has no worker
        any more."""
        from concurrent.futures import CancelledError

        from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

        if self._cancelled.is_set():  # it may have been set since the call took its turn
            future.cancel()
        # Not by `result(timeout=…)`: calls share one transfer of results, and where the time of one
        # is up, Dask ends the transfer for all, whose `result` then raises UnboundLocalError.
        ended = threading.Event()
        future.add_done_callback(lambda _: ended.set())
        until = time.monotonic() + seconds
        try:
            while (remaining := until - time.monotonic()) > 0:
                if ended.wait(min(remaining, LOOK_SECONDS)) or future.done():
                    return future.result()
                self._live(kind)  # a call whose worker died may be kept by the scheduler
        except KilledWorker as death:
            raise WorkerLost("its worker died", death.last_worker.address) from None
        except MemoryError as error:
            raise WorkerLost(f"it ran out of memory ({error})") from None
        except (NoWorkerError, NoValidWorkerError) as error:
            self._no_worker = RunError(f"the Dask cluster has no worker left: {error}")
            raise self._no_worker from error
        except CancelledError as error:
            if self._cancelled.is_set():
                raise KeyboardInterrupt from None
            if LOST in str(error):
                raise lost_scheduler() from None
            raise RunError(f"the Dask cluster dropped the work: {error}") from error
        raise Overdue


def _ended(what: str, tries: int, one_by_one: str = "") -> RunError:
    return RunError(
        f"{what} ended {counted(tries, 'worker')}{one_by_one}: check whether the machine is "
        "out of memory or something else kills processes, then run again to continue from here"
    )
