"""Runs each shard through its own chain of stages on threads, with no barrier between stages."""

from __future__ import annotations

import contextvars
import queue
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeVar, cast

from ...tasks.base.logs import log
from .calls import NotBegun, begin_chain

POLL_SECONDS = 0.5  # between two checks of the width; may delay a signal as long
INTERRUPT_SECONDS = 15.0  # that running chains have to end after an interrupt

Shard = TypeVar("Shard")
Result = TypeVar("Result")


def map_chains(
    shards: Sequence[Shard],
    chain: Callable[[Shard], Result],
    width: int | Callable[[], int],
    cancel: Callable[[], object] = lambda: None,
    drain: Callable[[], object] = lambda: None,
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
    # Copied here because a thread starts with an empty context; one copy per chain, because what a
    # chain sets must not reach the next chain.
    waiting = iter([(i, contextvars.copy_context()) for i in range(len(shards))])
    lock, stop = threading.Lock(), threading.Event()

    def work() -> None:
        try:
            while not stop.is_set():
                with lock:
                    index, context = next(waiting, (-1, None))
                if context is None:
                    return
                context.run(begin_chain)
                results[index] = context.run(chain, shards[index])
        except BaseException as error:  # raised again in the caller's thread
            errors.append(error)
            stop.set()
            drain()

    _run_on_threads(work, width, len(shards), stop, cancel)
    if errors:
        # A shard that was not begun may report before the shard whose error stopped it.
        first, *others = sorted(errors, key=lambda error: isinstance(error, NotBegun))
        for other in others:
            if not isinstance(other, NotBegun):
                log.error("another shard failed too: %s: %s", type(other).__name__, other)
        raise first
    return cast(list[Result], results)


def _run_on_threads(
    work: Callable[[], None],
    width: int | Callable[[], int],
    most: int,
    stop: threading.Event,
    cancel: Callable[[], object],
) -> None:
    """Run `work` on as many threads as `width` says, at most `most`, until all have ended."""
    threads: list[threading.Thread] = []
    ended: queue.SimpleQueue[None] = queue.SimpleQueue()

    def run() -> None:
        try:
            work()
        finally:
            ended.put(None)

    def widen() -> None:
        wanted = min(width() if callable(width) else width, most)
        while not stop.is_set() and len(threads) < wanted:
            # Daemons: a thread stuck in a dead connection must not keep the process alive.
            name = f"chain-{len(threads)}"
            threads.append(threading.Thread(target=run, name=name, daemon=True))
            threads[-1].start()

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
        cancel()
        until = time.monotonic() + INTERRUPT_SECONDS
        for thread in threads:
            thread.join(max(0.0, until - time.monotonic()))
        raise
