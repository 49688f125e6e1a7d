"""The workers connected to a scheduler and their resources, known without a request each time."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from time import monotonic, sleep
from typing import Any

ASK_S = 1.0  # s between two requests, at least
REFRESH_S = 60.0  # s after which the view is read again, in case an event was lost
PAUSES = (0.1, 0.2, 0.5, 1, 2, 4)  # s between attempts to reach all workers
EVENTS = "all"  # Dask's topic of workers that join and leave

Resources = dict[str, float]  # Dask's, by name


class SchedulerHere:
    """The workers of a scheduler in this process, read from the scheduler itself."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._last: tuple[dict[str, Any], dict[str, Resources]] = ({}, {})

    def resources(self) -> Mapping[str, Resources]:
        """Each worker's resources, by its address: the same mapping until the workers change."""
        # `dict.copy` takes one step, during which the scheduler's thread changes nothing.
        workers = dict.copy(self._scheduler.workers)
        seen, found = self._last
        if workers != seen:  # some 30 ns a worker, as they are mostly the same objects
            found = {address: worker.resources for address, worker in workers.items()}
            self._last = workers, found
        return found

    def refresh(self) -> None:
        """Nothing to do: the scheduler's own state is always current."""

    def close(self) -> None:
        """Nothing to do: there is no subscription."""


class SchedulerElsewhere:
    """The workers of a scheduler in another process, as of its last event.

    A worker that leaves is dropped as soon as the scheduler says so. One that joins is seen when
    the whole list is read again: after an event, at most once every ASK_S.
    """

    def __init__(self, client: Any) -> None:
        self._client = client
        self._state = threading.Lock()  # never held during a request: events come meanwhile
        self._request = threading.Lock()
        self._known: Mapping[str, Resources] | None = None  # replaced, never changed
        self._left: set[str] = set()  # workers that left since the last request began
        self._stale = True
        self._asked = 0.0  # monotonic s
        client.subscribe_topic(EVENTS, self._on_event)

    def resources(self) -> Mapping[str, Resources]:
        """Each worker's resources, by its address: the same mapping until the workers change."""
        with self._state:
            known, age = self._known, monotonic() - self._asked
            due = known is None or age > REFRESH_S or (self._stale and age > ASK_S)
        if due and self._request.acquire(blocking=known is None):
            try:
                self._ask()
            finally:
                self._request.release()
        with self._state:
            return self._known if self._known is not None else {}

    def refresh(self) -> None:
        """Read the list again at the next question, even if it is recent."""
        with self._state:
            self._stale, self._asked = True, monotonic() - ASK_S - 1

    def close(self) -> None:
        """End the subscription, before the client closes: the scheduler would try to tell the
        closed client that it left, and log a traceback."""
        self._client.unsubscribe_topic(EVENTS)

    def _ask(self) -> None:
        with self._state:
            self._asked, self._stale = monotonic(), False
            self._left.clear()
        workers = self._client.scheduler_info()["workers"]
        with self._state:
            known = {
                address: worker["resources"]
                for address, worker in workers.items()
                if address not in self._left
            }
            if known != self._known:
                self._known = known

    def _on_event(self, event: tuple[float, dict[str, str]]) -> None:
        """Called in the client's event loop: must not wait for a request."""
        _, message = event
        action, address = message.get("action"), message.get("worker")
        with self._state:
            if action == "add-worker":
                self._stale = True
            elif action == "remove-worker" and address is not None:
                self._left.add(address)
                if self._known is not None and address in self._known:
                    self._known = {a: held for a, held in self._known.items() if a != address}


def despite_deaths(ask_all: Callable[[], object]) -> None:
    """Ask all workers for something, and again when one of them dies meanwhile: Dask then fails for
    all of them. A worker that takes the dead one's place gets the request from the scheduler.

    OSError when it still fails after some seconds: the scheduler is gone.
    """
    for seconds in PAUSES:
        try:
            ask_all()
        except OSError:
            sleep(seconds)
        else:
            return
    ask_all()
