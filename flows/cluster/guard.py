"""Shards through the workers: who may die, who is charged, who runs next.

`Guard` runs one function for one shard on the Dask cluster and survives what kills workers;
`map_chains` runs many shards, each through its own chain of stages, with no barrier between.
"""

from __future__ import annotations

import contextvars
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar, cast

from flows.cluster.fleet import CPU
from tasks.accounting.metrics import Trace
from tasks.errors import RunError

LOG = logging.getLogger("uttermill")

SHARED_TRIES = 2  # deaths before the shard's items run one by one
ISOLATED_TRIES = 4  # deaths of the worker itself while it isolates: beyond reason
INTERRUPT_SECONDS = 15.0  # what running chains get to end after an interrupt

Shard = TypeVar("Shard")
Result = TypeVar("Result")


class Workers(Protocol):
    """What the guard needs of `flows.cluster.Cluster`."""

    def count(self, kind: str) -> int: ...
    def live(self, kind: str) -> int: ...
    def submit(self, function: Callable[..., Any], *args: Any, kind: str) -> Any: ...
    def restart_worker_of(self, future: Any) -> bool: ...


@dataclass
class Tally:
    """What the workers went through, for the summary."""

    deaths: int = 0
    timeouts: int = 0
    isolated: int = 0


class _Lane:
    """Workers of one kind: a slot for each one, and the calls that they run."""

    def __init__(self, kind: str, size: int) -> None:
        self.kind = kind
        self.slots = threading.BoundedSemaphore(size)
        self.running: set[Any] = set()
        self.handing_out = threading.Lock()


class _Died(Exception):
    """The worker died or was restarted under the call; the text says which. `late`: it hung."""

    def __init__(self, what: str, late: bool = False) -> None:
        super().__init__(what)
        self.late = late


class Guard:
    """Runs calls on the workers, at most one a worker, so that a death has one suspect.

    Each kind of workers (`flows.cluster.fleet`) has slots of its own: calls that wait for a GPU
    hold up no call that wants none.
    `deadline(seconds_of_audio, isolated)` gives the wall seconds that a call may take, unless the
    call comes with a deadline of its own; an isolated one runs its items one after the other, each
    with a limit of its own.
    Death rules: after the first death the call runs again (elsewhere: the dead worker is still
    starting); after the second, or a missed deadline, its items run one by one in disposable
    processes. Errors that the function raises reach the caller unchanged.
    """

    def __init__(self, cluster: Workers, deadline: Callable[[float, bool], float]) -> None:
        self.tally = Tally()
        self._cluster = cluster
        self._deadline = deadline
        self._lock = threading.Lock()
        self._lanes: dict[str, _Lane] = {}
        self._no_worker: RunError | None = None
        self._cancelled = threading.Event()
        self._draining = threading.Event()

    def run(
        self,
        fn: Callable[..., Any],
        *args: Any,
        seconds_of_audio: float = 0.0,
        within: Callable[[bool], float] | None = None,
        isolate_kw: str | None = "isolate",
        name: str | None = None,
        kind: str = CPU,
        trace: Trace | None = None,
    ) -> Any:
        """`fn(*args)` on a worker of a kind. `name` (default: the last argument) is for messages;
        `trace` is told how the call fares; `within(isolated)` is its deadline, in place of that for
        its audio.

        With `isolate_kw=None` the function cannot isolate: it is tried as often in all, because
        what kills it may well be something else.
        """
        what = name if name is not None else str(args[-1]) if args else fn.__name__
        most = SHARED_TRIES + ISOLATED_TRIES
        limit = within or partial(self._deadline, seconds_of_audio)
        trace = trace if trace is not None else Trace()
        trace.wanted = time.time()
        lane = self._lane(kind)
        with lane.slots:
            for attempt in range(1, (SHARED_TRIES if isolate_kw else most) + 1):
                try:
                    return self._attempt(trace, lane, fn, args, limit(False))
                except _Died as death:
                    # What hangs is not given the same time once more.
                    last = isolate_kw and (attempt == SHARED_TRIES or death.late)
                    then = "its items run one by one now" if last else "it runs again"
                    LOG.warning("%s: %s%s", what, death, f"; {then}" if attempt < most else "")
                    if last:
                        break
            if isolate_kw is not None:
                self._count("isolated")
                trace.isolated = True
                isolated = partial(fn, **{isolate_kw: True})
                for _ in range(ISOLATED_TRIES):
                    try:
                        return self._attempt(trace, lane, isolated, args, limit(True))
                    except _Died as death:
                        LOG.warning("%s, item by item: %s", what, death)
        one_by_one = ", even with its items run one by one" if isolate_kw else ""
        raise RunError(
            f"{what} ended {most} workers{one_by_one}: is the machine out of memory, or is "
            "something else killing processes? run it again to go on from here"
        )

    def cancel(self) -> None:
        """Ends waiting calls with KeyboardInterrupt and starts no more; for interrupts."""
        self._cancelled.set()
        with self._lock:
            running = [future for lane in self._lanes.values() for future in lane.running]
        for future in running:
            future.cancel()

    def drain(self) -> None:
        """What runs goes on; calls that wait, and later ones, end with NotBegun. One that takes the
        place of the failed call just now may still begin."""
        self._draining.set()

    def _lane(self, kind: str) -> _Lane:
        size = self._cluster.count(kind)  # may start the cluster: not under our lock
        with self._lock:
            return self._lanes.setdefault(kind, _Lane(kind, size))

    def _attempt(
        self, trace: Trace, lane: _Lane, fn: Callable[..., Any], args: tuple[Any, ...],
        seconds: float,
    ) -> Any:  # fmt: skip
        trace.attempts += 1
        began = time.time()
        if trace.attempts > 1:
            trace.wanted = began
        try:
            return self._call(lane, fn, args, seconds, trace.attempts == 1)
        except _Died:
            trace.deaths += 1
            trace.lost += time.time() - began
            raise

    def _call(
        self, lane: _Lane, fn: Callable[..., Any], args: tuple[Any, ...], seconds: float,
        first: bool,
    ) -> Any:  # fmt: skip
        while True:
            future = self._hand_out(lane, fn, args, first)
            try:
                return self._wait(future, seconds)
            except _NeverStarted:
                LOG.warning("no worker took a shard for %.0f s; it is handed out again", seconds)
            finally:
                with self._lock:
                    lane.running.discard(future)

    def _hand_out(
        self, lane: _Lane, fn: Callable[..., Any], args: tuple[Any, ...], first: bool
    ) -> Any:
        """Submit when a living worker has nothing to do: while a dead one is replaced, two calls
        would share one worker, and the innocent one would die, or be late, with the other."""
        while True:
            with lane.handing_out:
                if self._cancelled.is_set():
                    raise KeyboardInterrupt
                if self._no_worker is not None:
                    raise self._no_worker
                if first and self._draining.is_set():
                    raise NotBegun("it did not begin, because another shard failed")
                if not lane.running or len(lane.running) < self._cluster.live(lane.kind):
                    future = self._cluster.submit(fn, *args, kind=lane.kind)
                    with self._lock:
                        lane.running.add(future)
                    return future
            time.sleep(0.05)

    def _wait(self, future: Any, seconds: float) -> Any:
        from concurrent.futures import CancelledError

        from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

        if self._cancelled.is_set():  # cancel() may have come between submit and here
            future.cancel()
        try:
            try:
                return future.result(timeout=seconds)
            except TimeoutError:
                if future.done():  # the function's own TimeoutError, or done just now
                    return future.result()
        except KilledWorker:
            self._count("deaths")
            raise _Died("its worker died") from None
        except MemoryError as error:
            raise _Died(f"it ran out of memory ({error})") from None
        except (NoWorkerError, NoValidWorkerError) as error:
            self._no_worker = RunError(f"the Dask cluster has no worker left: {error}")
            raise self._no_worker from error
        except CancelledError as error:
            if self._cancelled.is_set():
                raise KeyboardInterrupt from None
            raise RunError(f"the Dask cluster dropped the work: {error}") from error
        if not self._cluster.restart_worker_of(future):
            raise _NeverStarted
        self._count("timeouts")
        raise _Died(f"no result after {seconds:.0f} s, so its worker was restarted", late=True)

    def _count(self, what: str) -> None:
        with self._lock:
            setattr(self.tally, what, getattr(self.tally, what) + 1)


class NotBegun(RunError):
    """The run ends for another error: nobody needs to hear of this one."""


class _NeverStarted(Exception):
    """The deadline passed while the call waited for a worker: nobody is to blame."""


def map_chains(
    shards: Sequence[Shard],
    chain: Callable[[Shard], Result],
    width: int,
    cancel: Callable[[], object] | None = None,
    drain: Callable[[], object] | None = None,
) -> list[Result]:
    """`chain(shard)` for each, on `width` threads, begun in the order given; results in order.

    Each call sees a copy of the caller's context variables, so that Prefect tasks and flows in
    it belong to the caller's flow run. After an error no further shard begins, those that run
    finish, and the first error is raised (the others are logged); `drain` (`Guard.drain`, say) is
    called to shorten that. On an interrupt `cancel` (`Guard.cancel`) is called for the same.
    """
    results: list[Result | None] = [None] * len(shards)
    errors: list[BaseException] = []
    waiting = iter(enumerate(shards))
    lock = threading.Lock()
    stop = threading.Event()
    ended: queue.SimpleQueue[None] = queue.SimpleQueue()

    def work() -> None:
        try:
            while not stop.is_set():
                with lock:
                    index, shard = next(waiting, (-1, None))
                if index < 0:
                    return
                # A fresh copy for each: what one chain sets does not reach the next one.
                context = contexts[index]
                results[index] = context.run(chain, cast(Shard, shard))
        except BaseException as error:  # carried to the caller's thread
            with lock:
                errors.append(error)
            stop.set()
            if drain is not None:
                drain()
        finally:
            ended.put(None)

    # Copied here: a thread begins with an empty context.
    contexts = [contextvars.copy_context() for _ in shards]
    # Daemon threads: one that hangs in a dead connection must not keep the process alive.
    threads = [
        threading.Thread(target=work, name=f"chain-{number}", daemon=True)
        for number in range(min(width, len(shards)))
    ]
    for thread in threads:
        thread.start()
    alive = len(threads)
    try:
        while alive:
            # Not for ever: a signal that another thread got would wait as long.
            with suppress(queue.Empty):
                ended.get(timeout=0.5)
                alive -= 1
    except BaseException:
        stop.set()
        if cancel is not None:
            cancel()
        until = time.monotonic() + INTERRUPT_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        raise
    if errors:
        # One that was not begun may well end before the one that it was not begun for.
        first, *others = sorted(errors, key=lambda error: isinstance(error, NotBegun))
        for other in others:
            if not isinstance(other, NotBegun):
                LOG.error("another shard failed too: %s: %s", type(other).__name__, other)
        raise first
    return cast(list[Result], results)
