"""Sends calls to the workers and survives their deaths.

Each kind of worker has a queue. A call starts when a worker of its kind is idle, so each worker
runs one call at a time and a death has one suspect.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from ...tasks.accounting.metrics import Trace
from ...tasks.base.counting import counted
from ...tasks.base.errors import KilledFromOutside, RunError
from ...tasks.base.logs import log
from ...tasks.stages import isolate
from .call_queue import (
    CallQueue,
    Future,
    Losses,
    NeverStarted,
    NotBegun,
    NoWorkerLeft,
    Overdue,
    WorkerDied,
    WorkerLeft,
    WorkerLost,
    result_of,
)
from .worker_counts import CPU

Result = TypeVar("Result")

SHARED_TRIES = 2  # deaths before the shard's items run one by one
ISOLATED_TRIES = 4  # deaths of the worker itself while it isolates; more are implausible
MOST_LEFT = 10  # workers that leave during a call, before it counts as taking too long
MOST_KILLED = 3  # calls killed from outside although they ran alone
POLL_SECONDS = 0.05  # between two checks for an idle worker by the call at the head of a queue
QUEUE_SECONDS = 0.5  # after which a queued call checks whether the run was cancelled


class Workers(Protocol):
    """The part of `flows.cluster.cluster.Cluster` that the dispatcher needs."""

    def live(self, kind: str) -> int:
        """Workers of a kind that are connected now."""

    def submit(self, function: Callable[..., object], *args: object, kind: str) -> Future:
        """Run a function on a worker of a kind."""

    def restart_worker_of(self, future: Future) -> bool:
        """Replace the worker that runs a call; False when none does."""

    def left(self, address: str) -> bool:
        """Whether a worker that is gone was told to leave."""

    def renew(self) -> None:
        """Replace all workers, none of which runs a call: new ones hold no models in memory."""


@dataclass(frozen=True, slots=True)
class _Call(Generic[Result]):
    """A call, the queue that it waits in, and the record of its attempts."""

    fn: Callable[..., Result]
    args: tuple[object, ...]
    queue: CallQueue
    trace: Trace


class Dispatcher:
    """Runs calls on the workers, at most one per worker.

    The number of workers is read before each call, so that the run follows a cluster that grows or
    shrinks. Kinds of workers (`flows.cluster.worker_counts`) have separate queues: calls that wait
    for a GPU do not hold up others.

    After a first death the call runs again; after a second death or a missed deadline its items
    run one by one in disposable processes; if one of these is killed from outside, alone, with no
    other call running. Errors that the function raises reach the caller unchanged.
    """

    def __init__(self, cluster: Workers) -> None:
        self.losses = Losses()
        self._cluster = cluster
        self._lock = threading.Lock()
        self._queues: dict[str, CallQueue] = {}
        self._no_worker: RunError | None = None
        self._cancelled = threading.Event()
        self._draining = threading.Event()
        self._alone = threading.Event()  # a call runs, or waits to run, with no other beside it
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
        again: tuple[object, ...] | None = None,
    ) -> Result:
        """Return `fn(*args)`, run on a worker of `kind`; `again`: its arguments after a death, if
        different.

        With `isolate=True`, `fn` runs its items one by one, each with a limit of its own.
        `isolates=False`: it has no such argument, and is retried as many times in total, because
        the cause may be elsewhere. `within(isolated)` is the call's deadline in wall seconds.
        `name` (default: the last argument) is used in messages; attempts, deaths and times are
        recorded in `trace`.
        """
        what = name if name is not None else str(args[-1]) if args else fn.__name__
        tries = SHARED_TRIES + ISOLATED_TRIES
        trace = trace if trace is not None else Trace()
        trace.wanted = time.time()
        call = _Call(fn, args, self._queue(kind), trace)
        for attempt in range(1, (SHARED_TRIES if isolates else tries) + 1):
            try:
                return self._attempt(call, within(False))
            except WorkerLost as loss:
                call = call if again is None else replace(call, args=again)
                # A call that hangs does not get the same time once more.
                last = isolates and (attempt == SHARED_TRIES or loss.timed_out)
                then = "its items run one by one now" if last else "it runs again"
                log.warning("%s: %s%s", what, loss, f"; {then}" if attempt < tries else "")
                if last:
                    break
        if isolates:
            with self._lock:
                self.losses.isolated += 1
            trace.isolated = True
            call = replace(call, fn=partial(fn, isolate=True))
            alone = False
            for _ in range(ISOLATED_TRIES):
                try:
                    attempt_it = self._attempt_alone if alone else self._attempt
                    return attempt_it(call, within(True))
                except WorkerLost as loss:
                    log.warning("%s, item by item: %s", what, loss)
                except KilledFromOutside as error:
                    log.warning("%s; it runs again with nothing beside it", error)
                    if alone and self._all_killed():
                        raise
                    again_so = isolate.resigned if alone else isolate.alone
                    work = partial(again_so, partial(fn, isolate=True))
                    call, alone = replace(call, fn=work), True
        one_by_one = ", even with its items run one by one" if isolates else ""
        raise RunError(
            f"{what} ended {counted(tries, 'worker')}{one_by_one}: check whether the machine is "
            "out of memory or something else kills processes, then run again to continue from here"
        )

    def once(self, fn: Callable[..., Result], *args: object, seconds: float) -> Result:
        """`fn(*args)` on a CPU worker, tried once. RunError if the worker dies, if the call takes
        more than `seconds`, or if it raises anything."""
        try:
            return self._attempt(_Call(fn, args, self._queue(CPU), Trace()), seconds)
        except RunError:
            raise
        except WorkerLost as loss:
            raise RunError(f"{fn.__name__}: {loss}") from loss
        except Exception as error:  # any error raised by the call
            raise RunError(f"{fn.__name__}: {type(error).__name__}: {error}") from error

    def wanted(self) -> int:
        """Calls that run or wait for a worker."""
        with self._lock:
            queues = list(self._queues.values())
        return sum(calls.length() for calls in queues)

    def cancel(self) -> None:
        """End running and queued calls with KeyboardInterrupt and start no more."""
        self._cancelled.set()
        with self._lock:
            queues = list(self._queues.values())
        for future in [future for calls in queues for future in calls.snapshot()]:
            future.cancel()

    def drain(self) -> None:
        """Let running calls finish; queued and later ones raise NotBegun. A call that takes the
        place of the failed one at this moment may still start."""
        self._draining.set()

    def sleep(self, seconds: float) -> None:
        """Sleep, unless the run is cancelled meanwhile: then KeyboardInterrupt."""
        if self._cancelled.wait(seconds):
            raise KeyboardInterrupt

    def _queue(self, kind: str) -> CallQueue:
        with self._lock:
            return self._queues.setdefault(kind, CallQueue(kind))

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
            future = self._submit_in_turn(call, retry or left > 0, alone)
            try:
                result: Result = self._wait(future, seconds, left < MOST_LEFT)
                return result
            except NeverStarted:
                log.warning("no worker took a shard for %.0f s; it is submitted again", seconds)
            except WorkerLeft:
                left += 1
                trace.lost += time.time() - began
                log.info("a worker was told to leave and did not end its call; it runs again")
                began = time.time()
            except WorkerLost:
                trace.deaths += 1
                trace.lost += time.time() - began
                raise
            finally:
                call.queue.finished(future)

    def _attempt_alone(self, call: _Call[Result], seconds: float) -> Result:
        """`_attempt` with no other call running, on workers that hold no models in memory."""
        with self._one_alone:
            self._alone.set()
            try:
                while self._running():
                    self.sleep(POLL_SECONDS)
                self._cluster.renew()
                return self._attempt(call, seconds, alone=True)
            finally:
                self._alone.clear()

    def _all_killed(self) -> bool:
        """Whether so many calls were killed although alone that no item is to blame."""
        with self._lock:
            self._killed += 1
            return self._killed == MOST_KILLED

    def _running(self) -> bool:
        """Whether any call runs; once `_alone` is set, none begins."""
        with self._lock:
            queues = list(self._queues.values())
        for calls in queues:
            with calls.submitting:
                if calls.running:
                    return True
        return False

    def _submit_in_turn(self, call: _Call[Result], retry: bool, alone: bool) -> Future:
        """Submit when it is this call's turn and a worker is idle.

        While a dead worker is being replaced, two calls would otherwise share a worker, and the
        innocent one would die, or miss its deadline, with the other.
        """
        calls = call.queue
        with calls.place() as turn:
            while True:
                if self._cancelled.is_set():
                    raise KeyboardInterrupt
                if self._no_worker is not None:
                    raise self._no_worker
                if self._drained(retry):
                    raise NotBegun("not started: another shard failed first")
                if not alone and not turn.wait(QUEUE_SECONDS):
                    continue
                calls.ended.clear()
                with calls.submitting:
                    # If none runs, submit in any case: Dask waits for a worker to join, and gives
                    # up after its own time-out.
                    busy = len(calls.running)
                    idle = not busy or busy < self._cluster.live(calls.kind)
                    # Meanwhile another call may have come to the head, or failed.
                    next_one = alone or (turn.is_set() and not self._alone.is_set())
                    if idle and next_one and not self._drained(retry):
                        future = self._cluster.submit(call.fn, *call.args, kind=calls.kind)
                        calls.started(future)
                        return future
                calls.ended.wait(POLL_SECONDS)

    def _drained(self, retry: bool) -> bool:
        """Whether a call must not begin; one that has begun before may run again."""
        return self._draining.is_set() and not retry

    def _wait(self, future: Future, seconds: float, may_leave: bool) -> Any:
        """The result of a call. `may_leave`: distinguish a worker that leaves from one that
        dies."""
        try:
            return result_of(future, seconds, self._cancelled)
        except NoWorkerLeft as error:
            self._no_worker = error
            raise
        except WorkerDied as death:
            if may_leave and self._cluster.left(death.worker):
                raise WorkerLeft from None
            with self._lock:
                self.losses.deaths += 1
            raise
        except Overdue:
            if not self._cluster.restart_worker_of(future):
                raise NeverStarted from None
        with self._lock:
            self.losses.timeouts += 1
        raise WorkerLost(f"no result after {seconds:.0f} s, so its worker was restarted", True)
