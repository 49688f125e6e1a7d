"""The workers connected to a scheduler, without a request each time; and which of them may take a
call, by kind (CPU, GPU) and admission."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from time import monotonic, sleep
from typing import Any, NamedTuple, NoReturn

from ...tasks.base.errors import RunError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log
from .admission import Admission, Computing
from .call_queue import lost_scheduler
from .worker_counts import CPU, GPU

ASK_S = 1.0  # s between two requests, at least
REFRESH_S = 60.0  # s after which the view is read again, in case an event was lost
PAUSES = (0.1, 0.2, 0.5, 1, 2, 4)  # s between attempts to reach all workers
EVENTS = "all"  # Dask's topic of workers that join and leave

Resources = dict[str, float]  # Dask's, by name
TELL_S = 60.0  # s between two log lines about a cluster without workers
FIRST_S = 7.0  # s before the first line: by then the queue has been queried once
LEAVING = "closing_gracefully"  # Dask's status of a worker that takes no new call
LOOK_S = 0.2  # s between two checks for a first worker
ADMITTED_S = 120.0  # s that a call waits for an admitted worker if all are refused


class SchedulerHere:
    """The workers of a scheduler in this process, read from the scheduler itself."""

    def __init__(self, scheduler: Any) -> None:
        self._scheduler = scheduler
        self._last: tuple[dict[str, Any], dict[str, Resources]] = ({}, {})

    def resources(self) -> Mapping[str, Resources]:
        """Each worker's resources, by its address: the same mapping until the workers change. One
        that leaves counts as long as it has a call."""
        # `dict.copy` takes one step, during which the scheduler's thread changes nothing.
        workers = dict.copy(self._scheduler.workers)
        if len(self._scheduler.running) < len(workers):  # Dask's set of those that take calls
            workers = {a: worker for a, worker in workers.items() if not _done(worker)}
        seen, resources = self._last
        if workers != seen:  # some 30 ns a worker, as they are mostly the same objects
            resources = {address: worker.resources for address, worker in workers.items()}
            self._last = workers, resources
        return resources

    @property
    def lost(self) -> bool:
        """Always false: it ends with this process."""
        return False

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
        self._state = threading.Lock()  # never held during a request, as events arrive meanwhile
        self._request = threading.Lock()
        self._known: Mapping[str, Resources] | None = None  # replaced, never changed
        self._left: set[str] = set()  # workers that left since the last request began
        self._stale = True
        self._asked = 0.0  # monotonic s
        client.subscribe_topic(EVENTS, self._on_event)

    def resources(self) -> Mapping[str, Resources]:
        """Each worker's resources, by its address: the same mapping until the workers change."""
        with self._state:
            resources, age = self._known, monotonic() - self._asked
            due = resources is None or age > REFRESH_S or (self._stale and age > ASK_S)
        if due and not self.lost and self._request.acquire(blocking=resources is None):
            try:
                self._ask()
            finally:
                self._request.release()
        with self._state:
            return self._known if self._known is not None else {}

    @property
    def lost(self) -> bool:
        """Whether the connection to it is lost, which ends all calls."""
        return bool(self._client.status != "running")

    def refresh(self) -> None:
        """Read the list again at the next use, even if it is recent."""
        with self._state:
            self._stale, self._asked = True, monotonic() - ASK_S - 1

    def close(self) -> None:
        """End the subscription, before the client closes: the scheduler would try to notify the
        closed client, and log a traceback."""
        self._client.unsubscribe_topic(EVENTS)

    def _ask(self) -> None:
        with self._state:
            self._asked, self._stale = monotonic(), False
            self._left.clear()
        workers = self._client.scheduler_info()["workers"]
        with self._state:
            resources = {
                address: worker["resources"]
                for address, worker in workers.items()
                if address not in self._left and worker["status"] != LEAVING
            }
            if resources != self._known:
                self._known = resources

    def _on_event(self, event: tuple[float, dict[str, Any]]) -> None:
        """Called in the client's event loop: must not wait for a request."""
        _, message = event
        action, address = message.get("action"), message.get("worker")
        with self._state:
            if action == "add-worker":
                self._stale = True
            gone = message.get("retired", ()) if action == "retire-workers" else ()
            if action == "remove-worker" and address is not None:
                gone = (address,)
            self._left |= {*gone}
            if self._known is not None and not self._known.keys().isdisjoint(gone):
                self._known = {
                    a: resources for a, resources in self._known.items() if a not in gone
                }


def despite_deaths(ask_all: Callable[[], object]) -> None:
    """Send a request to all workers, and repeat it if one of them dies meanwhile: Dask then fails
    for all. A worker that takes the dead one's place gets the request from the scheduler.

    OSError if it still fails after some seconds: the scheduler is gone.
    """
    for seconds in PAUSES:
        try:
            ask_all()
        except OSError:
            sleep(seconds)
        else:
            return
    ask_all()


class _Seen(NamedTuple):
    """The workers as last seen, and the placement that follows."""

    resources: Mapping[str, Resources]
    may: Collection[str]
    kinds: tuple[str, ...]
    by_kind: Mapping[str, list[str]]


class Placement:
    """Kinds and addresses of workers, for `Client.submit`.

    `separate`: whether CPU and GPU workers are distinguished; None: as soon as both kinds have been
    seen. A kind once seen stays: its workers may just be restarting. `admission` is None for the
    run's own workers, which declare a resource for their kind; workers that others started have to
    declare `GPU` only.
    """

    def __init__(
        self,
        scheduler: SchedulerHere | SchedulerElsewhere,
        admission: Admission | None,
        separate: bool | None,
    ) -> None:
        self._scheduler = scheduler
        self._admission = admission
        self._separate = separate
        self._once: frozenset[str] = frozenset()
        self._last: _Seen | None = None

    @property
    def kinds(self) -> tuple[str, ...]:
        """`(CPU,)` while all workers are alike, else `(CPU, GPU)`."""
        if self._separate is not None:
            return (CPU, GPU) if self._separate else (CPU,)
        return self._see().kinds

    def there(self, kind: str) -> list[str]:
        """Addresses of the workers of a kind that are connected now and may work."""
        return self._see().by_kind.get(kind, [])

    def _see(self) -> _Seen:
        """The current placement. Used several times per call, so recomputed only if the workers
        changed."""
        resources = self._scheduler.resources()
        may: Collection[str] = self._admission.of(resources) if self._admission else resources
        last = self._last
        if last is not None and last.resources is resources and last.may is may:
            return last
        separate = self._separate
        if separate is None:
            self._once |= set(map(_kind, resources.values()))
            separate = len(self._once) > 1
        if separate:
            by_kind = {kind: [a for a in may if _kind(resources[a]) == kind] for kind in (CPU, GPU)}
        else:  # any worker takes any call
            by_kind = {CPU: list(may), GPU: list(may)}
        self._last = _Seen(resources, may, (CPU, GPU) if separate else (CPU,), by_kind)
        return self._last

    def restrictions(self, kind: str) -> JsonObject:
        """Arguments of `Client.submit` that keep a call on the workers that may take it."""
        if len(self.kinds) == 1:
            return self._admitted_only()
        if self._admission is not None and kind == CPU and (workers := self.there(CPU)):
            return {"workers": workers}
        return {"resources": {kind: 1}}

    def _admitted_only(self) -> JsonObject:
        """Restrict a call to admitted workers; empty if all are, so that Dask chooses among
        them."""
        if self._admission is None:
            return {}
        until = time.monotonic() + ADMITTED_S
        while not (may := self._admission.of(workers := self._scheduler.resources())):
            if workers and time.monotonic() > until:
                refuse(self._admission, workers)
            if not workers:
                return {}  # Dask waits for one, and gives up after its own time-out
            time.sleep(0.5)
        return {} if len(may) == len(workers) else {"workers": may}


@dataclass(frozen=True)
class Patience:
    """`seconds`: how long a run waits for its first worker; `ended`: ends the wait early; `word`:
    what the queue says meanwhile, "" for nothing; `fault`: why no worker can join, or None."""

    seconds: float
    ended: threading.Event
    word: Callable[[], str] = str
    fault: Callable[[], RunError | None] = lambda: None


def await_admission(
    client: Any,
    scheduler: SchedulerHere | SchedulerElsewhere,
    common: Path | None,
    patience: Patience,
    computing: Computing | None = None,
) -> Admission:
    """Wait until one of the workers that others started may work for this run.

    RunError when every worker that answers is refused, when none has joined in time, or when the
    wait is ended.
    """
    admission = Admission(client, common, computing)
    began = monotonic()
    tell = began + FIRST_S
    while not admission.of(workers := scheduler.resources()):
        if patience.ended.is_set():
            raise RunError("the cluster of this run is closed")
        if scheduler.lost:
            raise lost_scheduler()
        if fault := patience.fault():
            raise fault
        if admission.asks(workers):  # by the next call of `of`
            continue
        if admission.refused(workers):
            refuse(admission, workers)
        now, remaining = monotonic(), began + patience.seconds - monotonic()
        what = "no worker answers" if workers else "no worker has joined the scheduler"
        if remaining <= 0:
            raise RunError(
                f"{what} within {_minutes(patience.seconds)} (cluster.wait_for_workers)"
                f"{_because(patience.word())}; finished work is kept: correct that, or raise the "
                "setting, and run again"
            )
        if now >= tell:
            because = _because(patience.word())
            log.info("%s yet%s; waiting for up to %s", what, because, _minutes(remaining))
            scheduler.refresh()
            tell = now + TELL_S
        patience.ended.wait(min(LOOK_S, remaining))
    return admission


def _done(worker: Any) -> bool:
    """Whether a worker, by its scheduler's state, was told to leave and has no call."""
    return worker.status.name == LEAVING and not worker.processing


def _because(word: str) -> str:
    return f": {word}" if word else ""


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def refuse(admission: Admission, workers: Collection[str]) -> NoReturn:
    """RunError with the fault of each worker."""
    faults = "; ".join(admission.refused(workers)) or "none answers"
    raise RunError(f"no worker of the Dask cluster can work for this run: {faults}")


def _kind(resources: Resources) -> str:
    return GPU if resources.get(GPU) else CPU
