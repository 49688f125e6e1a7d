"""Keeps the jobs of a cluster class (Slurm and the like) at the number in the settings: replaces
jobs that have ended, were refused, or are near their walltime."""

from __future__ import annotations

import subprocess
import threading
import zlib
from collections.abc import Callable, Collection, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from math import ceil, inf
from time import monotonic
from typing import TYPE_CHECKING, Any

from ...tasks.base.counting import counted
from ...tasks.base.errors import RunError
from ...tasks.base.logs import log
from .settings import WorkerRange

if TYPE_CHECKING:
    from distributed import SpecCluster


CHECK_S = 5.0  # s between two checks of the jobs
AGAIN_S = 60.0  # s between two tries when a queue refuses jobs, and between two log lines
LOST_S = 300.0  # s without a worker after which a job is given up, if its queue cannot be queried
IDLE_S = 30.0  # s that surplus workers are kept
STEP_S = 120.0  # s that submitting, or cancelling, all jobs may take
FAILED_STARTS = 3  # jobs in a row that end before any of their workers joined
#: A worker takes no new call in the last part of its walltime: LAST_CALLS times a call's length and
#: LAST_S, but at most half of the walltime.
LAST_CALLS, LAST_S = 2.0, 20.0
STAGGER = 0.1  # of the walltime, over which jobs that began together are replaced


class Upkeep:
    """A thread that keeps a `distributed.SpecCluster` at its number of workers; its jobs may have
    several workers each, and count as whole.

    `demand`: calls that run or wait, used if `wanted` is a range.
    """

    def __init__(
        self, cluster: SpecCluster, wanted: int | WorkerRange, demand: Callable[[], int]
    ) -> None:
        self._cluster: Any = cluster
        self._wanted = wanted
        self._demand = demand
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._run, name="keep-workers", daemon=True)
        self._joined: set[Any] = set()  # jobs of which a worker has joined
        self._missing: dict[Any, float] = {}  # since when such a job has no worker
        self._retired: set[Any] = set()  # jobs near their walltime
        self._failed_starts = 0
        self._next_try = 0.0  # monotonic s
        self._surplus_since = inf
        self._word = ""

    def start(self) -> None:
        """Submit the first jobs, and keep their number from now on."""
        self._thread.start()

    def close(self, timeout: float) -> None:
        """End the thread; idempotent."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        give_up_refused(self._cluster.workers.values())

    def word(self) -> str:
        """The queue's last message about jobs that do not start; "" without one."""
        return self._word

    @property
    def fault(self) -> RunError | None:
        """Why no worker will ever join; None while one may, or has joined."""
        if self._failed_starts < FAILED_STARTS or self._joined:
            return None
        return RunError(
            f"{self._failed_starts} jobs in a row ended before a worker of theirs joined; the "
            "jobs' own logs (cluster.options.log_directory) say why"
        )

    def _run(self) -> None:
        while not self._ended.is_set():
            # The cluster is being closed, or its queue takes too long: the next check decides.
            with suppress(TimeoutError, OSError):
                self._look()
            self._ended.wait(CHECK_S)

    def _look(self) -> None:
        """Find the jobs that are over or near their end, and replace them."""
        cluster = self._cluster
        jobs = dict(cluster.workers)
        present = jobs_with(workers_of(cluster.worker_spec), self._names())
        self._joined |= present
        queued = ask_queue(jobs)
        gone = self._gone(jobs, present, queued)
        if queued is not None:
            self._word = reason_of(queued.values())
            self._retire(queued, present)
        drained = {name for name in self._retired if not self._busy(name)} - gone
        if gone or drained:
            if not self._ended.is_set() and gone:
                log.info("%s ended; replaced", counted(len(gone), "job"))
            self._on_loop(self._drop, gone | drained)
        wanted = self._jobs_wanted() + len(self._retired & set(cluster.worker_spec))
        if self._ended.is_set() or monotonic() < self._next_try or self.fault is not None:
            return
        if len(cluster.worker_spec) < wanted:
            self._grow(wanted)
        surplus = len(cluster.worker_spec) - wanted
        if surplus <= 0 or not isinstance(self._wanted, WorkerRange):
            self._surplus_since = inf
        elif monotonic() > (since := min(self._surplus_since, monotonic())) + IDLE_S:
            self._shrink(surplus)
        else:
            self._surplus_since = since

    def _gone(
        self,
        jobs: Mapping[Any, Any],
        present: set[Any],
        queued: Mapping[Any, QueuedJob] | None,
    ) -> set[Any]:
        """Jobs that are over: not in the queue any more, or without a worker for a while."""
        now = monotonic()
        for name in jobs:
            if name in present or name not in self._joined:
                self._missing.pop(name, None)
            else:
                self._missing.setdefault(name, now)
        lost = {name for name, since in self._missing.items() if now > since + LOST_S}
        lost |= {name for name, job in jobs.items() if over(job)}
        if queued is not None:
            lost |= jobs.keys() - queued.keys() - present
        for name in lost:
            if name in self._joined:
                self._failed_starts = 0
            elif not was_refused(jobs[name]):
                self._failed_starts += 1
        return lost

    def _jobs_wanted(self) -> int:
        per_job = workers_each(self._cluster.new_spec)
        if not isinstance(self._wanted, WorkerRange):
            return ceil(self._wanted / per_job)
        workers = min(max(self._demand(), self._wanted.min), self._wanted.max)
        return ceil(workers / per_job)

    def _grow(self, wanted: int) -> None:
        try:
            self._on_loop(self._add, wanted)
        except TimeoutError:
            raise
        except Exception as error:  # any error of the class or its command: no job began
            self._word = queue_refusal(error)
            log.warning(
                "the queue takes no job: %s; it is asked again in %.0f s", self._word, AGAIN_S
            )
            self._next_try = monotonic() + AGAIN_S
            refused = {n for n, job in self._cluster.workers.items() if was_refused(job)}
            give_up_refused(self._cluster.workers.values())
            self._on_loop(self._drop, refused)

    def _shrink(self, surplus: int) -> None:
        """End idle jobs, first those whose workers have not joined yet."""
        spec = self._cluster.worker_spec
        present = jobs_with(workers_of(spec), self._names())
        idle = sorted((n for n in spec if not self._busy(n)), key=lambda name: name in present)
        self._on_loop(self._drop, set(idle[:surplus]))

    def _retire(self, queued: Mapping[Any, QueuedJob], present: Collection[Any]) -> None:
        """Jobs near their walltime take no new call; others are started in their place."""
        takes = self._seconds_of_a_call()
        near = {
            name
            for name, job in queued.items()
            if name in present and name not in self._retired
            if near_its_end(job, takes, spread(name))
        }
        if near:
            self._retired |= near
            self._on_loop(self._retire_workers, near)
            log.info("%s near the walltime; replaced", counted(len(near), "job"))

    def _seconds_of_a_call(self) -> float:
        """The longest average of all kinds of calls so far, s."""
        prefixes = dict.copy(self._cluster.scheduler.task_prefixes).values()
        return max([0.0, *(float(prefix.duration_average) for prefix in prefixes)])

    def _names(self) -> list[Any]:
        """Names of the workers that are connected."""
        return [worker.name for worker in dict.copy(self._cluster.scheduler.workers).values()]

    def _workers(self, jobs: Collection[Any]) -> list[Any]:
        """The scheduler's states of the connected workers of some jobs."""
        job_of = workers_of(self._cluster.worker_spec)
        states = dict.copy(self._cluster.scheduler.workers).values()
        return [state for state in states if job_of.get(state.name) in jobs]

    def _busy(self, name: Any) -> bool:
        return any(state.processing for state in self._workers({name}))

    def _on_loop(self, action: Callable[..., Any], argument: Any) -> None:
        """Run a coroutine in the cluster's event loop, which alone may change its jobs."""
        self._cluster.sync(action, argument, callback_timeout=STEP_S)

    async def _drop(self, names: Collection[Any]) -> None:
        """Drop jobs, which ends what is left of them."""
        for name in names:
            self._cluster.worker_spec.pop(name, None)
            self._missing.pop(name, None)
            self._joined.discard(name)
            self._retired.discard(name)
        await self._cluster

    async def _add(self, wanted: int) -> None:
        """Submit as many jobs as are missing; RuntimeError of the first that is refused."""
        while len(self._cluster.worker_spec) < wanted:
            self._cluster.worker_spec.update(self._cluster.new_worker_spec())
        await self._cluster

    async def _retire_workers(self, names: Collection[Any]) -> None:
        addresses = {state.address: state.name for state in self._workers(names)}
        done = await self._cluster.scheduler.retire_workers(
            list(addresses), remove=False, close_workers=False, stimulus_id="near-walltime"
        )
        # A worker with a result that nobody has fetched yet is left for the next check.
        job_of = workers_of(self._cluster.worker_spec)
        self._retired -= {job_of.get(addresses[a]) for a in addresses.keys() - done.keys()}


def of(cluster: Any, wanted: int | WorkerRange | None, demand: Callable[[], int]) -> Upkeep | None:
    """The `Upkeep` that keeps a cluster, once started, at `wanted` workers (None: as many as it
    has). None for a class that keeps its workers itself, which gets the number."""
    from distributed import Scheduler, SpecCluster

    scheduler = getattr(cluster, "scheduler", None)
    if isinstance(cluster, SpecCluster) and isinstance(scheduler, Scheduler) and cluster.new_spec:
        has = len(cluster.worker_spec) * workers_each(cluster.new_spec)
        return Upkeep(cluster, wanted or has, demand)
    if isinstance(wanted, WorkerRange):
        cluster.adapt(minimum=wanted.min, maximum=wanted.max)
    elif wanted and hasattr(cluster, "scale"):
        cluster.scale(wanted)
    return None


def workers_each(spec: Mapping[str, Any]) -> int:
    """Workers of a job."""
    return len(spec.get("group", ("",)))


def workers_of(specs: Mapping[Any, Mapping[str, Any]]) -> dict[Any, Any]:
    """The job of each worker, by the names that Dask gives to both."""
    return {
        f"{name}{suffix}" if suffix else name: name
        for name, spec in dict(specs).items()
        for suffix in spec.get("group", ("",))
    }


def jobs_with(job_of: Mapping[Any, Any], workers: Iterable[Any]) -> set[Any]:
    """The jobs of these workers."""
    return {job_of[name] for name in workers if name in job_of}


def over(job: Any) -> bool:
    """Whether the job's own state says that it has ended."""
    return getattr(getattr(job, "status", None), "name", "") in ("closed", "failed")


def was_refused(job: Any) -> bool:
    """Whether a submitted job is in no queue."""
    return over(job) or getattr(getattr(job, "status", None), "name", "") == "created"


def give_up_refused(jobs: Iterable[Any]) -> None:
    """Mark refused jobs as failed: Dask would try to submit or to end them."""
    from distributed import Status

    for job in jobs:
        if was_refused(job):
            job.status = Status.failed


def near_its_end(job: QueuedJob, takes: float, early: float = 0.0) -> bool:
    """Whether a job may reach its walltime within a call of `takes` seconds, or within `early` of
    it, 0..1 of STAGGER."""
    if job.walltime == inf:
        return False
    last = LAST_CALLS * takes + LAST_S + early * STAGGER * job.walltime
    return job.left < min(last, job.walltime / 2)


def spread(name: Any) -> float:
    """0..1, different for each job, so that those that began together do not end together."""
    return zlib.crc32(str(name).encode()) / 2**32


# What a batch queue says of a run's jobs: why one waits, when one is near its walltime, and which
# are over. Slurm is queried by `squeue`; other queues only report refusals.

ANSWER_S = 20.0  # s that squeue may take
FIELDS = "%i|%T|%L|%l|%r"  # id, state, time left, walltime, reason (last, as it may hold a bar)
UNITS = (1, 60, 3600)  # s, from the right, of D-HH:MM:SS
#: Final states of a job.
OVER = {
    "CANCELLED",
    "COMPLETED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "COMPLETING",
}


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job as the queue sees it; times in s, inf where there is no limit."""

    state: str
    reason: str
    left: float
    walltime: float

    @property
    def waits(self) -> bool:
        return self.state == "PENDING"


def ask_queue(jobs: Mapping[Any, Any]) -> dict[Any, QueuedJob] | None:
    """The queue's state of each job (of `dask_jobqueue`, by any name) that is not over yet; None if
    the queue cannot be queried now, or at all."""
    ids = {str(number): name for name, job in jobs.items() if (number := _slurm_id(job))}
    if not ids:
        return None
    try:
        squeue = subprocess.run(
            ["squeue", "--noheader", "--me", f"--format={FIELDS}"],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=ANSWER_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    queued = parsed_answer(squeue.stdout)
    return {name: queued[number] for number, name in ids.items() if number in queued}


def parsed_answer(listing: str) -> dict[str, QueuedJob]:
    """Jobs that are not over, by id, from what squeue prints for FIELDS."""
    jobs = {}
    for line in listing.splitlines():
        number, state, remaining, walltime, reason = line.split("|", 4)
        if state not in OVER:
            jobs[number] = QueuedJob(state, reason, _seconds(remaining), _seconds(walltime))
    return jobs


def _seconds(words: str) -> float:
    """Seconds of Slurm's D-HH:MM:SS, whose left parts may be missing; inf for UNLIMITED."""
    days, _, clock = words.strip().rpartition("-")
    parts = clock.split(":")
    if not all(part.isdigit() for part in [*parts, days or "0"]):
        return inf
    whole = zip(UNITS, reversed(parts), strict=False)
    return float(sum(unit * int(part) for unit, part in whole) + 86400 * int(days or 0))


def reason_of(queued: Collection[QueuedJob]) -> str:
    """Why jobs wait, for people: each reason once; "" if none waits."""
    reasons = sorted({job.reason for job in queued if job.waits})
    return f"Slurm: the jobs wait for {', '.join(reasons)}" if reasons else ""


def queue_refusal(error: BaseException) -> str:
    """The queue's message when it refused a job: the last line of the command's stderr, where the
    error holds one, as those of `dask_jobqueue` do."""
    _, marked, stderr = str(error).partition("stderr:\n")
    lines = [line.strip() for line in (stderr if marked else str(error)).splitlines()]
    return "; ".join(filter(None, lines)) or type(error).__name__


def _slurm_id(job: Any) -> str | None:
    """The id of a Slurm job; None if it was refused, or is of another kind."""
    of_slurm = getattr(job, "cancel_command", None) == "scancel"
    return getattr(job, "job_id", None) if of_slurm else None
