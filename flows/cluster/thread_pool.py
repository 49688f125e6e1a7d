"""Runs each shard through its own chain of stages on threads, with no barrier between stages."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Generic, TypeVar, cast

from flows.cluster.call_queue import NotBegun, begin_chain
from tasks.base.logs import log

POLL_SECONDS = 0.5  # between two looks at the width; a signal taken by another thread waits as long
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
    # A shard that was not begun may well report before the shard whose error stopped it.
    first, *others = sorted(errors, key=lambda error: isinstance(error, NotBegun))
    for other in others:
        if not isinstance(other, NotBegun):
            log.error("another shard failed too: %s: %s", type(other).__name__, other)
    return first
