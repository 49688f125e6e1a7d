"""The workers that a scheduler has, and which of them may take a call of a kind (CPU, GPU).

Workers that others started are asked when they are first seen. One of another version could
compute different rows; one without the preload may fork, or break a resampler that two threads load
at once; one that does not share OUT would write where nobody reads. Such a worker gets no work, and
the log says why. Workers may join at any time, such as a Slurm job that waited or a pod that was
added. Dask cannot keep them out for one run alone: a plug-in that it hands to each worker that
joins would stay in other people's scheduler when this run is killed, and cannot be loaded where
uttermill is missing.
"""

from __future__ import annotations

import logging
import os
import threading
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from math import inf
from pathlib import Path
from pkgutil import resolve_name
from time import monotonic, sleep
from typing import Any, cast

from ...tasks.base.errors import RunError
from ...tasks.base.json_types import JsonObject
from ...tasks.base.logs import log
from ...tasks.runs import likeness
from ...tasks.settings.job import Job
from ...tasks.shard_store import index
from . import worker
from .calls import lost_scheduler
from .worker_counts import CPU, GPU

Resources = Mapping[str, float]  # Dask's, by name

READ_S = 0.5  # s for which the list is taken as it was read
#: None in a worker that joined without this module: it was not preloaded.
PRELOADED = "uttermill.tasks.preload:READY_AT"
#: Workers asked together; those that have answered work while others are asked.
AT_ONCE = 50
ANSWER_S = 20.0  # s that a worker may take to answer, and after which it is asked again
TELL_S = 60.0  # s between two log lines about a cluster without workers
LOOK_S = 0.2  # s between two checks for a first worker


@dataclass(frozen=True, slots=True)
class Patience:
    """How long a run waits while it has no worker, by default for workers that Dask starts again
    within seconds; `first`: s until the first word; `word`: what the queue says meanwhile, or "";
    `fault`: why no worker can join, or None."""

    seconds: float = 120.0
    first: float = 30.0
    remedy: str = "see what ends them (memory, say), and run again"
    word: Callable[[], str] = str
    fault: Callable[[], RunError | None] = lambda: None


class Workers:
    """The workers of a scheduler, by address. Thread-safe.

    `separate`: whether CPU and GPU workers are distinguished; None: as soon as both kinds have been
    seen, for good: a kind's workers may be restarting. `admission` is None for the run's own
    workers, which declare a resource for their kind; others have to declare `GPU` only.
    """

    def __init__(
        self,
        client: Any,
        admission: Admission | None = None,
        separate: bool | None = None,
        patience: Patience | None = None,
    ) -> None:
        self._client, self._admission, self._separate = client, admission, separate
        self._patience = patience or Patience()
        self._counting = threading.Lock()
        #: Since when workers of a kind (None: all) are missing, and when to say so; monotonic s.
        self._lacked: dict[str | None, tuple[float, float]] = {}
        self._worked = False  # whether there was any
        self._reading = threading.Lock()
        self._asking = threading.Thread()  # which asks new workers
        self._read_at = -inf  # monotonic s
        self._running: set[str] = set()  # those that take calls
        self._connected: Mapping[str, Resources] = {}  # and those that end theirs; never changed
        self._may: Sequence[str] = ()  # those that may work

    @property
    def kinds(self) -> tuple[str, ...]:
        """`(CPU,)` while all workers are alike, else `(CPU, GPU)`."""
        self._look()
        return (CPU, GPU) if self._separate else (CPU,)

    def there(self, kind: str) -> list[str]:
        """Addresses of the workers of a kind that are connected now and may work."""
        self._look()
        connected, may = self._connected, self._may
        if not self._separate:  # any worker takes any call
            return [*may]
        return [a for a in may if a in connected and _kind(connected[a]) == kind]

    def restrictions(self, kind: str) -> JsonObject:
        """Arguments of `Client.submit` that keep a call on the workers that may take it."""
        while True:
            may = self.there(kind)
            among = {kind: 1} if self._separate else {}
            if self._admission is None or len(self._may) == len(self._connected):
                # Without any, Dask waits for one, and gives up after its own time-out.
                return {"resources": among} if among else {}
            declared: JsonObject = {"resources": among} if kind == GPU and among else {}
            if may or declared:
                return {"workers": may, **declared} if may else declared
            self.count(kind)  # which says so, and is patient for so long
            sleep(LOOK_S)

    def forget(self) -> None:
        """Read the list again at its next use: a worker is known to have died."""
        with self._reading:
            self._read_at = -inf

    def wait(self, ended: threading.Event) -> None:
        """Wait until one of the workers may work for this run; RunError as of `count`, or when the
        wait is `ended`."""
        while not self.count():
            if ended.is_set():
                raise RunError("the cluster of this run is closed")
            ended.wait(LOOK_S)
            self.forget()

    def count(self, kind: str | None = None) -> int:
        """How many workers, or workers of a kind, may work now; of none, the log says so now and
        then. RunError when the scheduler is lost, when all that answer are refused at the start, or
        when none has come within `patience`."""
        self._look()
        with self._counting:
            if count := len(self.there(kind) if kind else self._may):
                self._lacked.pop(kind, None)
                self._worked = True
                return count
            if self._client.status != "running":
                raise lost_scheduler()
            if error := self._patience.fault():
                raise error
            if (admission := self._admission) is not None and not self._worked:
                workers = self._connected
                faults = admission.refused(workers)
                if faults and admission.asked_all(workers):
                    raise RunError(
                        "no worker of the Dask cluster can work for this run: " + "; ".join(faults)
                    )
            self._tell(kind)
            return 0

    def _tell(self, kind: str | None) -> None:
        """Log that there is no worker, and until when one is waited for; RunError after that."""
        now, wait = monotonic(), self._patience
        began, due = self._lacked.setdefault(kind, (now, now + wait.first))
        remaining = began + wait.seconds - now
        if now < due and remaining > 0:
            return
        what = f"no {kind} worker is left" if self._may else "no worker is left"
        if not self._worked:
            what = "no worker has joined the scheduler"
        if self._connected and not self._may:
            what = "no worker answers"
        because = f": {words}" if (words := wait.word()) else ""
        if remaining <= 0:
            raise RunError(
                f"{what}, and none came within {_minutes(wait.seconds)}{because}; finished work is "
                f"kept: {wait.remedy}"
            )
        log.log(
            logging.WARNING if self._worked else logging.INFO,
            "%s%s; waiting for one for up to %s; if none comes, %s",
            *(what, because, _minutes(remaining), wait.remedy),
        )
        self._lacked[kind] = began, now + TELL_S

    def _look(self) -> None:
        """Read the list if it is old; only the first use waits while another thread reads it."""
        if monotonic() < self._read_at + READ_S:
            return
        if not self._reading.acquire(blocking=self._read_at == -inf):
            return
        try:
            if self._client.status == "running" and monotonic() >= self._read_at + READ_S:
                with suppress(OSError):  # the scheduler is gone: the client's status says so
                    self._read()
        finally:
            self._reading.release()

    def _read(self) -> None:
        # A local function, so that its code is sent: the scheduler may have no uttermill. A worker
        # that was told to leave counts as long as it has a call.
        def connected(dask_scheduler: Any) -> dict[str, Resources]:
            return {
                address: dict(worker.resources)
                for address, worker in dask_scheduler.workers.items()
                if worker.status.name == "running" or worker.processing
            }

        # Asked first, as it is small and the scheduler does not log it.
        request = self._client.scheduler.ncores_running
        running = {*self._client.sync(request, callback_timeout=ANSWER_S)}
        resources = self._connected
        if running != self._running or len(resources) > len(running):
            resources = self._client.run_on_scheduler(connected)
        if self._separate is None:
            both = {_kind(r) for r in (*resources.values(), *self._connected.values())}
            self._separate = True if len(both) > 1 else None
        may = [*resources]
        if (admission := self._admission) is not None:
            if (new := admission.new(resources)) and not self._asking.is_alive():
                self._asking = threading.Thread(target=admission.ask, args=(new,), daemon=True)
                self._asking.start()
            may = admission.admitted(resources)
        self._running, self._connected, self._may = running, resources, may
        self._read_at = monotonic()


class Admission:
    """Which workers may work for this client.

    `common`: a folder just made by this process, to which every worker must be able to write.
    `job`: what they are to compute; those that would compute other data than this process get no
    work, unless `mixed`: then they are recorded in OUT.
    """

    def __init__(
        self, client: Any, common: Path | None = None, job: Job | None = None, mixed: bool = False
    ) -> None:
        self._client, self._common, self._mixed = client, common, mixed
        self._job = job and replace(job, scratch=None)  # which exists on this machine only
        self._version = version("uttermill")
        self._ours = likeness.of_this_process(self._job) if self._job else {}
        self._faults: dict[str, str | None] = {}
        self._asked: dict[str, float] = {}  # monotonic s
        self._recording = threading.Lock()

    def admitted(self, workers: Collection[str]) -> list[str]:
        return [address for address in workers if self._faults.get(address, "") is None]

    def new(self, workers: Collection[str]) -> list[str]:
        """Workers to ask now: at most AT_ONCE that have not been asked, or not answered, lately."""
        due = monotonic() - ANSWER_S
        new = (a for a in workers if a not in self._faults and self._asked.get(a, -inf) < due)
        return [*islice(new, AT_ONCE)]

    def ask(self, workers: Sequence[str]) -> None:
        """Ask each of these; refusals are logged once."""
        with ThreadPoolExecutor(len(workers)) as pool:
            answers = {address: pool.submit(self._fault, address) for address in workers}
        for address, answer in answers.items():
            try:
                self._faults[address] = words = answer.result()
                if words:
                    log.warning("worker %s gets no work: %s", address, words)
            except (OSError, TimeoutError):
                if address not in self._asked:
                    log.warning(
                        "worker %s does not answer and gets no work until it does; check that the "
                        "scheduler can reach its port",
                        address,
                    )
            self._asked[address] = monotonic()

    def asked_all(self, workers: Collection[str]) -> bool:
        return all(address in self._asked for address in workers)

    def refused(self, workers: Collection[str]) -> list[str]:
        faults = ((address, self._faults.get(address)) for address in workers)
        return [f"{address}: {words}" for address, words in faults if words]

    def _fault(self, address: str) -> str | None:
        """The fault of a worker, None without one; OSError if it does not answer, or dies."""

        def ask(function: Callable[..., object], *args: object) -> object:
            answers = self._client.run(
                function, *args, workers=[address], on_error="return", callback_timeout=ANSWER_S
            )
            answer = answers.get(address, OSError())
            if isinstance(answer, OSError):
                raise answer
            return cast(object, answer)

        # Functions of the standard library, which exist whatever the worker has installed.
        theirs, ready_at = ask(version, "uttermill"), ask(resolve_name, PRELOADED)
        sees = self._common is None or ask(os.access, str(self._common), os.W_OK)
        words = fault(self._version, theirs, ready_at, sees)
        if words or self._job is None:
            return words
        alike = ask(worker.trusting(likeness.of_this_process), self._job)
        if isinstance(alike, Exception):
            return f"it could not report its code and libraries: {alike}"
        unlike = likeness.differences(self._ours, cast(likeness.Likeness, alike))
        words = other_data(unlike, self._mixed) if unlike else None
        if unlike and words is None:
            with self._recording:
                index.note_mixed(self._job.out, unlike)
        return words


def other_data(unlike: Sequence[str], mixed: bool = False) -> str | None:
    """The fault of a worker with these differences; None if it may work, as in `mixed` clusters."""
    if mixed and likeness.WEIGHTS in unlike:
        return (
            "this run would not find its results, because it has "
            f"other {likeness.WEIGHTS}; install the same there"
        )
    if mixed:
        return None
    return (
        f"it would compute other data, because it has other {', '.join(unlike)}; "
        "install there what is here, or set cluster.mixed: true"
    )


def fault(ours: str, theirs: object, ready_at: object, sees: object = True) -> str | None:
    """The fault of a worker that gave these answers or errors, with the remedy. `ours`, `theirs`:
    version of the flow's process, and of the worker."""
    if isinstance(theirs, PackageNotFoundError):
        return f"uttermill is not installed there; install {ours}"
    if theirs != ours:
        return f"it has uttermill {theirs}, and this is {ours}; install {ours} there"
    if isinstance(ready_at, Exception):
        return f"uttermill.tasks.preload cannot be loaded there: {ready_at}"
    if ready_at is None:
        return (
            "it was started without the preload; start it with infra/dask.yaml as DASK_CONFIG, "
            "or at least with --preload uttermill.tasks.preload"
        )
    if sees is not True:
        return (
            "it cannot write to OUT; OUT has to be a folder that this machine and all workers "
            "see at the same path"
        )
    return None


def _minutes(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else f"{seconds / 60:.0f} min"


def _kind(resources: Resources) -> str:
    return GPU if resources.get(GPU) else CPU
