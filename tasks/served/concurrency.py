"""How many requests are in flight: more while the server keeps up, fewer when it pushes back.

The number doubles with each round of answers until the server first pushes back, and grows by one a
round from then on; a push back (429, 503, a time-out) halves it: the rule of TCP (RFC 5681), which
finds what a server can take without being told. All requests wait for as long as a server asks.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST = 4  # requests to begin with
TICK = 0.1  # s between two looks at whether the run has stopped


class Pace:
    """Shared by the threads of one worker; `most` requests at most."""

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._most, self._clock = most, clock
        self._limit = float(min(FIRST, most))
        self._busy = 0
        self._doubling = True
        self._until = 0.0  # nothing is sent before
        self._halved = 0.0  # when the limit was last halved
        self._free = threading.Condition()

    @property
    def limit(self) -> int:
        """Requests that may be in flight now."""
        return int(self._limit)

    @contextmanager
    def slot(self, stopped: Callable[[], bool]) -> Iterator[bool]:
        """Waits for a place in flight, and holds it; gives False if the run stopped meanwhile."""
        with self._free:
            while not stopped() and (self._busy >= self.limit or self._clock() < self._until):
                self._free.wait(TICK)
            self._busy += 1
        try:
            yield not stopped()
        finally:
            with self._free:
                self._busy -= 1
                self._free.notify_all()

    def answered(self) -> None:
        """The server answered."""
        with self._free:
            step = 1.0 if self._doubling else 1.0 / self._limit
            if self._busy >= self.limit:  # a limit that was not reached may be high enough
                self._limit = min(self._limit + step, float(self._most))
            self._free.notify_all()

    def pushed_back(self, began: float, pause: float | None) -> None:
        """The server pushed back on a request that began at `began`. Halves the limit, only once
        for all requests that were in flight together, and sends nothing for `pause` seconds."""
        with self._free:
            now = self._clock()
            self._doubling = False
            if began >= self._halved:
                self._limit = max(self._limit / 2, 1.0)
                self._halved = now
            if pause:
                self._until = max(self._until, now + pause)
