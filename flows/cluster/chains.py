"""Runs each shard through its own chain of stages on threads, with no barrier between stages."""

from __future__ import annotations

import contextvars
import logging
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar, cast

from flows.cluster.call_queue import begin_chain
from flows.cluster.dispatcher import NotBegun

log = logging.getLogger("uttermill")

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
    results: list[Result | None] = [None] * len(shards)
    errors: list[BaseException] = []
    waiting = iter(enumerate(shards))
    lock = threading.Lock()
    stop = threading.Event()
    ended: queue.SimpleQueue[None] = queue.SimpleQueue()

    def begun(shard: Shard) -> Result:
        begin_chain()
        return chain(shard)

    def work() -> None:
        try:
            while not stop.is_set():
                with lock:
                    index, shard = next(waiting, (-1, None))
                if index < 0:
                    return
                # One copy per chain: what a chain sets must not reach the next chain.
                results[index] = contexts[index].run(begun, cast(Shard, shard))
        except BaseException as error:  # raised again in the caller's thread
            with lock:
                errors.append(error)
            stop.set()
            if drain is not None:
                drain()
        finally:
            ended.put(None)

    # Copied here because a thread starts with an empty context.
    contexts = [contextvars.copy_context() for _ in shards]
    threads: list[threading.Thread] = []

    def widen() -> None:
        """Start the missing threads; more threads than shards would be idle."""
        wanted = width() if callable(width) else width
        while not stop.is_set() and len(threads) < min(wanted, len(shards)):
            # Daemons: a thread stuck in a dead connection must not keep the process alive.
            thread = threading.Thread(target=work, name=f"chain-{len(threads)}", daemon=True)
            threads.append(thread)
            thread.start()

    try:
        widen()
        finished = 0
        while finished < len(threads):
            with suppress(queue.Empty):
                ended.get(timeout=POLL_SECONDS)
                finished += 1
            if not finished:  # once one has ended there is nothing left for new threads
                widen()
    except BaseException:
        stop.set()
        if cancel is not None:
            cancel()
        until = time.monotonic() + INTERRUPT_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        raise
    if errors:
        # A shard that was not begun may well report before the shard whose error stopped it.
        first, *others = sorted(errors, key=lambda error: isinstance(error, NotBegun))
        for other in others:
            if not isinstance(other, NotBegun):
                log.error("another shard failed too: %s: %s", type(other).__name__, other)
        raise first
    return cast(list[Result], results)
