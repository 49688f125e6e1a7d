"""Admission of workers that others started: each is checked when it is first seen.

A worker of another version could compute different rows; one without the preload may fork, or break
a resampler that two threads load at once; one that does not share OUT would write where nobody
reads. Such a worker gets no work, and the log says why. Workers may join at any time, such as a
Slurm job that waited or a pod that was added.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, replace
from importlib.metadata import PackageNotFoundError, version
from itertools import islice
from math import inf
from pathlib import Path
from pkgutil import resolve_name
from time import monotonic
from typing import Any, cast

from ...tasks.base.logs import log
from ...tasks.runs import likeness
from ...tasks.settings.job import Job
from ...tasks.shard_store import mixed
from . import worker

#: None in a worker that joined without this module: it was not preloaded.
PRELOADED = "uttermill.tasks.preload:READY_AT"
#: Workers queried together. In a larger group, one is more likely to answer too late, above all
#: when a thousand join at once. The others are queried while these work.
AT_ONCE = 50
ANSWER_S = 20.0  # s that a worker may take to answer, and after which it is queried again


@dataclass(frozen=True, slots=True)
class Computing:
    """What workers are to compute, to check that they would compute the same data as this process.
    `mixed`: those that would not may work, too, and are recorded in OUT."""

    job: Job
    mixed: bool = False


class Admission:
    """Which workers of a scheduler may work for this client.

    `common`: a folder just made by this process, to which every worker must be able to write.
    `computing`: None where nothing is computed.
    """

    def __init__(
        self, client: Any, common: Path | None = None, computing: Computing | None = None
    ) -> None:
        self._client = client
        self._common = common
        self._computing = computing
        self._faults: dict[str, str | None] = {}
        self._asked: dict[str, float] = {}  # monotonic s
        self._lock = threading.Lock()
        # The last argument of `of`, its result, and until when (monotonic s) it is valid.
        self._last: tuple[Collection[str], list[str], float] = ((), [], 0.0)

    def of(self, workers: Collection[str]) -> list[str]:
        """Addresses of the workers that may work. New workers are queried, AT_ONCE per call;
        refusals are logged once.

        `workers` must not be modified: for the same object the same list is returned while no
        worker has to be queried, so that a call does not go through a thousand workers.
        """
        last, may, until = self._last
        if workers is last and monotonic() < until:
            return may
        if self._lock.acquire(blocking=False):  # calls for known workers continue meanwhile
            try:
                self._meet(workers)
            finally:
                self._lock.release()
        silent = [address for address in workers if address not in self._faults]
        until = min((self._asked.get(address, -inf) for address in silent), default=inf) + ANSWER_S
        may = [address for address in workers if self._faults.get(address, "") is None]
        self._last = workers, may, until
        return may

    def _meet(self, workers: Collection[str]) -> None:
        now = monotonic()
        due = (
            address
            for address in workers
            if address not in self._faults and now > self._asked.get(address, -inf) + ANSWER_S
        )
        new = list(islice(due, AT_ONCE))
        answers = self._ask(new)
        for address, fault in answers.items():
            self._faults[address] = fault
            if fault:
                log.warning("worker %s gets no work: %s", address, fault)
        for address in new:  # after the answers, else `of` would miss them until its next query
            if address not in answers and address not in self._asked:
                log.warning(
                    "worker %s does not answer and gets no work until it does; check that the "
                    "scheduler can reach its port",
                    address,
                )
            self._asked[address] = monotonic()

    def asks(self, workers: Collection[str]) -> bool:
        """Whether any of these has never been queried."""
        return any(worker not in self._asked and worker not in self._faults for worker in workers)

    def refused(self, workers: Collection[str]) -> list[str]:
        """Why each refused worker among these was refused."""
        faults = ((address, self._faults.get(address)) for address in workers)
        return [f"{address}: {fault}" for address, fault in faults if fault]

    def _ask(self, addresses: Sequence[str]) -> dict[str, str | None]:
        """Fault, or None, of each worker that answers; workers that die meanwhile are missing."""
        # Functions of the standard library, which exist whatever the worker has installed.
        asked = [self._run(addresses, version, "uttermill")]
        heard = list(asked[0])  # does not wait again for a worker that did not answer
        asked += [self._run(heard, resolve_name, PRELOADED)]
        if self._common is not None:
            asked += [self._run(heard, os.access, str(self._common), os.W_OK)]
        answers = {
            address: [by_address.get(address, OSError()) for by_address in asked]
            for address in addresses
        }
        ours = version("uttermill")  # reads a file: once, not for each of a thousand workers
        faults = {
            address: fault(ours, *replies)
            for address, replies in answers.items()
            if not any(isinstance(answer, OSError) for answer in replies)
        }
        if self._computing is None or not faults:
            return faults
        alike = self._alike(self._computing, [a for a, words in faults.items() if words is None])
        return {a: words or alike[a] for a, words in faults.items() if words or a in alike}

    def _alike(self, computing: Computing, addresses: Sequence[str]) -> dict[str, str | None]:
        """Fault, or None, of each worker that reports its code and libraries for the job."""
        job = replace(computing.job, scratch=None)  # it exists on this machine only
        answers = self._run(addresses, worker.trusting(likeness.of), job)
        ours = likeness.of(job) if answers else {}
        faults: dict[str, str | None] = {}
        for address, theirs in answers.items():
            if isinstance(theirs, OSError):
                continue  # it has died, or does not answer
            if isinstance(theirs, Exception):
                faults[address] = f"it could not report its code and libraries: {theirs}"
            elif unlike := likeness.differences(ours, cast(likeness.Likeness, theirs)):
                faults[address] = other_data(unlike, computing.mixed)
                if faults[address] is None:
                    mixed.record(computing.job.out, unlike)
            else:
                faults[address] = None
        return faults

    def _run(
        self, addresses: Sequence[str], function: Callable[..., object], *args: object
    ) -> dict[str, object]:
        if not addresses:
            return {}
        workers = list(addresses)
        with suppress(TimeoutError):  # queried again later
            answers: dict[str, object] = self._client.run(
                function, *args, workers=workers, on_error="return", callback_timeout=ANSWER_S
            )
            return answers
        if len(workers) == 1:
            return {}
        # If one does not answer (a closed port, say), Dask drops all answers: query one by one.
        with ThreadPoolExecutor(len(workers)) as pool:
            alone = pool.map(lambda address: self._run([address], function, *args), workers)
            return {address: answer for one in alone for address, answer in one.items()}


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
    """The fault of a worker that gave these answers or errors, with the remedy; None if it is fine.

    `ours` and `theirs`: version of the flow's process, and of the worker.
    """
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
