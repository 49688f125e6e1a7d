"""What becomes of a call on a worker: its result, its own error, or the loss of its worker."""

from __future__ import annotations

import threading
from dataclasses import dataclass
from typing import Any

from flows.cluster.call_queue import Future
from tasks.errors import RunError


class WorkerLost(Exception):
    """The worker died or was restarted during the call; `timed_out`: at the call's deadline."""

    def __init__(self, what: str, timed_out: bool = False) -> None:
        super().__init__(what)
        self.timed_out = timed_out


class WorkerDied(WorkerLost):
    """The worker's process ended during the call."""


class Overdue(Exception):
    """No result by the deadline."""


class NeverStarted(Exception):
    """The deadline passed while the call waited for a worker: nothing is to blame."""


class NotBegun(RunError):
    """A call that was not started because the run is ending for another error."""


class NoWorkerLeft(RunError):
    """No worker has joined, and Dask has given up waiting for one."""


@dataclass
class Losses:
    """Deaths and timeouts on the workers of a run, for its summary."""

    deaths: int = 0
    timeouts: int = 0
    isolated: int = 0


def result_of(future: Future, seconds: float, cancelled: threading.Event) -> Any:
    """The result of a submitted call, or the error that it raised.

    WorkerLost, Overdue or NoWorkerLeft if it gave neither; KeyboardInterrupt if `cancelled`.
    """
    from concurrent.futures import CancelledError

    from distributed.scheduler import KilledWorker, NoValidWorkerError, NoWorkerError

    if cancelled.is_set():  # it may have been set between submit and here
        future.cancel()
    try:
        try:
            return future.result(timeout=seconds)
        except TimeoutError:
            if future.done():  # the function's own TimeoutError, or it finished just now
                return future.result()
    except KilledWorker:
        raise WorkerDied("its worker died") from None
    except MemoryError as error:
        raise WorkerLost(f"it ran out of memory ({error})") from None
    except (NoWorkerError, NoValidWorkerError) as error:
        raise NoWorkerLeft(f"the Dask cluster has no worker left: {error}") from error
    except CancelledError as error:
        if cancelled.is_set():
            raise KeyboardInterrupt from None
        raise RunError(f"the Dask cluster dropped the work: {error}") from error
    raise Overdue
