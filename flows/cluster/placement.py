"""Which of the workers that are there now may take a call."""

from __future__ import annotations

import time
from collections.abc import Collection
from typing import NoReturn

from flows.cluster.admission import Admission
from flows.cluster.fleet import CPU, GPU
from flows.cluster.workers import Resources, SchedulerElsewhere, SchedulerHere
from tasks.errors import RunError
from tasks.json_types import JsonObject

ADMITTED_S = 120.0  # s that a call waits for an admitted worker while there are only others


class Placement:
    """Kinds and addresses of workers, for `Client.submit`.

    `separate`: whether CPU and GPU workers are told apart; None: as soon as both kinds have been
    seen. A kind that was once seen stays: its workers may be restarting just now.
    `admission` is None for workers of our own, which declare a resource for their kind; workers
    that others started have to declare `GPU` only.
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
        self._seen: set[str] = set()

    @property
    def kinds(self) -> tuple[str, ...]:
        """`(CPU,)` while all workers are alike, else `(CPU, GPU)`."""
        separate = self._separate
        if separate is None:
            self._seen |= set(map(_kind, self._scheduler.resources().values()))
            separate = len(self._seen) > 1
        return (CPU, GPU) if separate else (CPU,)

    def there(self, kind: str) -> list[str]:
        """Addresses of the workers of a kind that are there now and may work."""
        found = self._scheduler.resources()
        may = self._admission.of(found) if self._admission else list(found)
        alike = len(self.kinds) == 1
        return [address for address in may if alike or _kind(found[address]) == kind]

    def restrictions(self, kind: str) -> JsonObject:
        """Arguments of `Client.submit` that keep a call on the workers that may take it."""
        if len(self.kinds) == 1:
            return self._admitted_only()
        if self._admission is not None and kind == CPU and (there := self.there(CPU)):
            return {"workers": there}
        return {"resources": {kind: 1}}

    def _admitted_only(self) -> JsonObject:
        """Empty where every worker may work: Dask then chooses among all of them."""
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


def refuse(admission: Admission, workers: Collection[str]) -> NoReturn:
    """RunError with the fault of each worker."""
    faults = "; ".join(admission.refused(workers)) or "none answers"
    raise RunError(f"no worker of the Dask cluster can work for this run: {faults}")


def _kind(resources: Resources) -> str:
    return GPU if resources.get(GPU) else CPU
