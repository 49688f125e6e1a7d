"""Compares a run's task runs per second with what a Prefect server on SQLite can record.

A server records one with 10 ms of its CPU or more. On SQLite, which has one writer, it wrote 28 a
second on two busy cores (`python -m tests.bench.task_runs`). Faster than that, the history lags
behind the run: it is not lost, but the UI is out of date, and the end of the run waits for it.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable

from prefect.settings import get_current_settings

SQLITE = 28.0  # task runs a second
NEAR = 0.7  # share of that at which the run warns
WINDOW = 30.0  # s over which the pace is taken


class Pace:
    """Counts task runs as they begin. Thread-safe."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._begun: deque[float] = deque()
        self._told = False
        self.count = 0

    def begun(self) -> float | None:
        """Count one. The pace in task runs a second, the first time that it comes near SQLite's
        limit and stays there for WINDOW seconds; else None."""
        now = self._clock()
        with self._lock:
            self.count += 1
            if self._told:
                return None
            self._begun.append(now)
            whole = now - self._begun[0] >= WINDOW
            while now - self._begun[0] > WINDOW:
                self._begun.popleft()
            pace = len(self._begun) / WINDOW
            if not whole or pace < NEAR * SQLITE:
                return None
            self._told = True
            self._begun.clear()
            return pace


def warning(pace: float) -> str | None:
    """The warning about it; None if the run's own server uses another database."""
    settings = get_current_settings()
    found = settings.server.database.connection_url
    url = found.get_secret_value() if found is not None else "sqlite"
    if settings.api.url is None and not url.startswith("sqlite"):
        return None
    return (
        f"{pace:.0f} task runs a second: a Prefect server on SQLite records about {SQLITE:.0f} on "
        "two busy cores, so its history may lag behind; larger shards (shard.hours) make fewer, "
        "and several runs at once want PostgreSQL (PREFECT_SERVER_DATABASE_CONNECTION_URL)"
    )
