"""The calls for one kind of worker: those that run, and those that wait for an idle worker."""

from __future__ import annotations

import threading
from bisect import insort
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Any, NamedTuple, Protocol

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
    number: int  # of places of equal chains, the older goes first
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

    def snapshot(self) -> list[Future]:
        with self._lock:
            return list(self.running)
