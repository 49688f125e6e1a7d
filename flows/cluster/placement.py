"""Which of the connected workers may take a call, by kind (CPU, GPU) and admission."""

from __future__ import annotations

import time
from collections.abc import Collection, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from flows.cluster.admission import Admission
from flows.cluster.worker_counts import CPU, GPU
from flows.cluster.worker_list import Resources, SchedulerElsewhere, SchedulerHere
from tasks.base.errors import RunError
from tasks.base.json_types import JsonObject
from tasks.base.logs import log

WAIT_S = 60.0  # s between two log lines about a cluster without workers
ADMITTED_S = 120.0  # s that a call waits for an admitted worker while there are only others


class _Seen(NamedTuple):
    """The workers as last seen, and the placement that follows."""

    found: Mapping[str, Resources]
    may: Collection[str]
    kinds: tuple[str, ...]
    there: Mapping[str, list[str]]


class Placement:
    """Kinds and addresses of workers, for `Client.submit`.

    `separate`: whether CPU and GPU workers are distinguished; None: as soon as both kinds have been
    seen. A kind once seen stays: its workers may just be restarting. `admission` is None for
    workers of our own, which declare a resource for their kind; workers that others started have to
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
        return self._see().there.get(kind, [])

    def _see(self) -> _Seen:
        """The current placement. Asked several times a call, so recomputed only if the workers have
        changed."""
        found = self._scheduler.resources()
        may: Collection[str] = self._admission.of(found) if self._admission else found
        last = self._last
        if last is not None and last.found is found and last.may is may:
            return last
        separate = self._separate
        if separate is None:
            self._once |= set(map(_kind, found.values()))
            separate = len(self._once) > 1
        if separate:
            there = {kind: [a for a in may if _kind(found[a]) == kind] for kind in (CPU, GPU)}
        else:  # any worker takes any call
            there = {CPU: list(may), GPU: list(may)}
        self._last = _Seen(found, may, (CPU, GPU) if separate else (CPU,), there)
        return self._last

    def restrictions(self, kind: str) -> JsonObject:
        """Arguments of `Client.submit` that keep a call on the workers that may take it."""
        if len(self.kinds) == 1:
            return self._admitted_only()
        if self._admission is not None and kind == CPU and (there := self.there(CPU)):
            return {"workers": there}
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


def await_admission(
    client: Any, scheduler: SchedulerHere | SchedulerElsewhere, common: Path | None
) -> Admission:
    """Wait until one of the workers that others started may work for this run.

    RunError when every worker that answers is refused.
    """
    admission = Admission(client, common)
    while not admission.of(workers := scheduler.resources()):
        if admission.asks(workers):  # with the next call
            continue
        if admission.refused(workers):
            refuse(admission, workers)
        if not workers:
            log.info("no worker has joined the scheduler yet; waiting for one")
            with suppress(TimeoutError):
                client.wait_for_workers(1, timeout=WAIT_S)
            scheduler.refresh()
        else:  # it has just died, or is too busy to answer
            time.sleep(0.5)
    return admission


def refuse(admission: Admission, workers: Collection[str]) -> NoReturn:
    """RunError with the fault of each worker."""
    faults = "; ".join(admission.refused(workers)) or "none answers"
    raise RunError(f"no worker of the Dask cluster can work for this run: {faults}")


def _kind(resources: Resources) -> str:
    return GPU if resources.get(GPU) else CPU
