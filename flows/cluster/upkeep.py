"""Keeps the jobs of a cluster class (Slurm and the like) at the number in the settings: replaces
jobs that have ended, were refused, or are near their walltime; and what a queue says meanwhile.

Dask's `adapt` forgets a job only when a worker of it has joined and left, so that jobs which end
before stay counted; and its `lifetime` ends a call that runs when a walltime is near.
"""

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
from ...tasks.base.errors import RunError, shortened
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
    """A thread that keeps a `distributed.SpecCluster` at its number of workers, in whole jobs.
    `demand`: calls that run or wait, used if `wanted` is a range."""

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
        self._thread.start()

    def close(self, timeout: float) -> None:
        """End the thread; idempotent."""
        self._ended.set()
        if self._thread.is_alive():
            self._thread.join(timeout)
        self._give_up_refused()

    def word(self) -> str:
        """The queue's last message about jobs that do not start; "" without one."""
        return self._word

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
        jobs, workers = dict(cluster.workers), self._workers()
        self._joined |= workers.keys()
        queued = ask_queue(jobs)
        gone = self._gone(jobs, workers.keys(), queued)
        if queued is not None:
            self._word = reason_of(queued.values())
            self._retire(queued, workers)
        workers = self._workers()
        drained = {name for name in self._retired if not _busy(workers.get(name))} - gone
        if gone or drained:
            if not self._ended.is_set() and gone:
                log.info("%s ended; replaced", counted(len(gone), "job"))
            self._on_loop(self._drop, gone | drained)
        wanted = self._jobs_wanted() + len(self._retired & set(cluster.worker_spec))
        if self._ended.is_set() or monotonic() < self._next_try or self.fault() is not None:
            return
        if len(cluster.worker_spec) < wanted:
            self._grow(wanted)
        surplus = len(cluster.worker_spec) - wanted
        if surplus <= 0 or not isinstance(self._wanted, WorkerRange):
            self._surplus_since = inf
            return
        self._surplus_since = min(self._surplus_since, monotonic())
        if monotonic() > self._surplus_since + IDLE_S:
            self._surplus_since = inf
            # Idle jobs, first those whose workers have not joined yet.
            idle = [name for name in cluster.worker_spec if not _busy(workers.get(name))]
            self._on_loop(self._drop, sorted(idle, key=workers.__contains__)[:surplus])

    def _gone(
        self,
        jobs: Mapping[Any, Any],
        present: Collection[Any],
        queued: Mapping[Any, QueuedJob] | None,
    ) -> set[Any]:
        """Jobs that are over: not in the queue any more, or without a worker for a while."""
        now = monotonic()
        away = {name for name in jobs if name in self._joined and name not in present}
        self._missing = {name: self._missing.get(name, now) for name in away}
        lost = {name for name, since in self._missing.items() if now > since + LOST_S}
        lost |= {name for name, job in jobs.items() if _status(job) in ("closed", "failed")}
        if queued is not None:
            lost |= jobs.keys() - queued.keys() - {*present}
        for name in lost:
            if name in self._joined:
                self._failed_starts = 0
            elif not _was_refused(jobs[name]):
                self._failed_starts += 1
        return lost

    def _jobs_wanted(self) -> int:
        wanted = self._wanted
        if isinstance(wanted, WorkerRange):
            wanted = min(max(self._demand(), wanted.min), wanted.max)
        return ceil(wanted / _workers_each(self._cluster.new_spec))

    def _grow(self, wanted: int) -> None:
        try:
            self._on_loop(self._add, wanted)
        except TimeoutError:
            raise
        except Exception as error:  # any error of the class or its command: no job began
            _, marked, stderr = str(error).partition("stderr:\n")  # of `dask_jobqueue`
            lines = (line.strip() for line in (stderr if marked else str(error)).splitlines())
            self._word = "; ".join(filter(None, lines)) or type(error).__name__
            log.warning(
                "the queue takes no job: %s; it is asked again in %.0f s", self._word, AGAIN_S
            )
            self._next_try = monotonic() + AGAIN_S
            refused = {n for n, job in self._cluster.workers.items() if _was_refused(job)}
            self._give_up_refused()
            self._on_loop(self._drop, refused)

    def _give_up_refused(self) -> None:
        """Mark refused jobs as failed: Dask would try to submit or to end them."""
        from distributed import Status

        for job in self._cluster.workers.values():
            if _was_refused(job):
                job.status = Status.failed

    def _retire(
        self, queued: Mapping[Any, QueuedJob], workers: Mapping[Any, Collection[Any]]
    ) -> None:
        """Jobs near their walltime take no new call; others are started in their place."""
        # The longest average of all kinds of calls so far, s.
        prefixes = dict.copy(self._cluster.scheduler.task_prefixes).values()
        takes = max([0.0, *(float(prefix.duration_average) for prefix in prefixes)])
        near = {
            name
            for name, job in queued.items()
            # Jobs that began together do not end together.
            if name in workers and near_its_end(job, takes, zlib.crc32(str(name).encode()) / 2**32)
        } - self._retired
        if near:
            self._retired |= near
            self._on_loop(self._retire_workers, [w for name in near for w in workers[name]])
            log.info("%s near the walltime; replaced", counted(len(near), "job"))

    def _workers(self) -> dict[Any, list[Any]]:
        job_of = workers_of(self._cluster.worker_spec)
        by_job: dict[Any, list[Any]] = {}
        for state in dict.copy(self._cluster.scheduler.workers).values():
            if state.name in job_of:
                by_job.setdefault(job_of[state.name], []).append(state)
        return by_job

    def _on_loop(self, action: Callable[..., Any], argument: Any) -> None:
        """Run a coroutine in the cluster's event loop, which alone may change its jobs."""
        self._cluster.sync(action, argument, callback_timeout=STEP_S)

    async def _drop(self, names: Collection[Any]) -> None:
        for name in names:
            self._cluster.worker_spec.pop(name, None)
        self._joined -= {*names}
        self._retired -= {*names}
        await self._cluster

    async def _add(self, wanted: int) -> None:
        """Submit as many jobs as are missing; RuntimeError of the first that is refused."""
        while len(self._cluster.worker_spec) < wanted:
            self._cluster.worker_spec.update(self._cluster.new_worker_spec())
        await self._cluster

    async def _retire_workers(self, workers: Collection[Any]) -> None:
        names = {state.address: state.name for state in workers}
        done = await self._cluster.scheduler.retire_workers(
            [*names], remove=False, close_workers=False, stimulus_id="near-walltime"
        )
        # A worker with a result that nobody has fetched yet is left for the next check.
        job_of = workers_of(self._cluster.worker_spec)
        self._retired -= {job_of.get(names[address]) for address in names.keys() - done.keys()}


def for_cluster(
    cluster: Any, wanted: int | WorkerRange | None, demand: Callable[[], int]
) -> Upkeep | None:
    """The `Upkeep` that keeps a cluster, once started, at `wanted` workers (None: as many as it
    has). None for a class that keeps its workers itself, which gets the number."""
    from distributed import Scheduler, SpecCluster

    scheduler = getattr(cluster, "scheduler", None)
    if isinstance(cluster, SpecCluster) and isinstance(scheduler, Scheduler) and cluster.new_spec:
        has = len(cluster.worker_spec) * _workers_each(cluster.new_spec)
        return Upkeep(cluster, wanted or has, demand)
    if isinstance(wanted, WorkerRange):
        cluster.adapt(minimum=wanted.min, maximum=wanted.max)
    elif wanted and hasattr(cluster, "scale"):
        cluster.scale(wanted)
    return None


def _workers_each(spec: Mapping[str, Any]) -> int:
    return len(spec.get("group", ("",)))


def workers_of(specs: Mapping[Any, Mapping[str, Any]]) -> dict[Any, Any]:
    """The job of each worker, by the names that Dask gives to both."""
    return {
        f"{name}{suffix}" if suffix else name: name
        for name, spec in dict(specs).items()
        for suffix in spec.get("group", ("",))
    }


def _busy(workers: Collection[Any] | None) -> bool:
    return any(state.processing for state in workers or ())


def _status(job: Any) -> str:
    return getattr(getattr(job, "status", None), "name", "")


def _was_refused(job: Any) -> bool:
    """Whether a submitted job is in no queue."""
    return _status(job) in ("closed", "failed", "created")


# What a queue says of a run's jobs: why one waits, when one is near its walltime, and which are
# over. Slurm is queried by `squeue`; other queues only report refusals.

ANSWER_S = 20.0  # s that squeue may take
FIELDS = "%i|%T|%L|%l|%r"  # id, state, time left, walltime, reason (last, as it may hold a bar)
#: Final states of a job.
OVER = {
    *("CANCELLED", "COMPLETED", "FAILED", "TIMEOUT", "NODE_FAIL", "PREEMPTED", "BOOT_FAIL"),
    *("DEADLINE", "OUT_OF_MEMORY", "COMPLETING"),
}


@dataclass(frozen=True, slots=True)
class QueuedJob:
    """A job as the queue sees it; times in s, inf where there is no limit."""

    state: str
    reason: str
    left: float
    walltime: float


def near_its_end(job: QueuedJob, takes: float, early: float = 0.0) -> bool:
    """Whether a job may reach its walltime within a call of `takes` seconds, or within `early` of
    it, 0..1 of STAGGER."""
    if job.walltime == inf:
        return False
    last = LAST_CALLS * takes + LAST_S + early * STAGGER * job.walltime
    return job.left < min(last, job.walltime / 2)


def ask_queue(jobs: Mapping[Any, Any]) -> dict[Any, QueuedJob] | None:
    """The queue's state of each job (of `dask_jobqueue`, by any name) that is not over yet; None if
    the queue cannot be queried now, or at all."""
    ids = {
        str(job.job_id): name
        for name, job in jobs.items()
        if getattr(job, "cancel_command", None) == "scancel" and getattr(job, "job_id", None)
    }
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
    whole = zip((1, 60, 3600), reversed(parts), strict=False)
    return float(sum(unit * int(part) for unit, part in whole) + 86400 * int(days or 0))


def reason_of(queued: Collection[QueuedJob]) -> str:
    """Why jobs wait, for people: each reason once; "" if none waits."""
    reasons = sorted({job.reason for job in queued if job.state == "PENDING"})
    return f"Slurm: the jobs wait for {', '.join(reasons)}" if reasons else ""


def word_of_pods(cluster: Any) -> str:
    """The warnings of Kubernetes about a cluster of `dask_kubernetes` (no node has room, a quota is
    used up, an image is missing), each reason once; "" without any, for another class, and if the
    API does not answer."""
    if type(cluster).__module__.partition(".")[0] != "dask_kubernetes":
        return ""
    import httpx
    import kr8s
    from kr8s.objects import Event

    try:
        warnings: Iterable[Any] = Event.list(
            namespace=cluster.namespace, field_selector={"type": "Warning"}
        )
        return _warned([event.raw for event in warnings], cluster.name)
    except (OSError, RuntimeError, httpx.HTTPError, kr8s.ServerError, kr8s.APITimeoutError):
        return ""


def _warned(events: Iterable[Mapping[str, Any]], name: str) -> str:
    """The last message of each reason about objects of the cluster `name`, oldest first."""
    last: dict[str, str] = {}
    # ISO 8601 in UTC, so that texts sort as times; "" if unknown.
    for event in sorted(events, key=lambda e: e.get("lastTimestamp") or e.get("eventTime") or ""):
        if event["involvedObject"].get("name", "").startswith(name):
            last.pop(event["reason"], None)
            last[event["reason"]] = " ".join(event.get("message", "").split())
    reasons = [f"{reason}: {message}" for reason, message in last.items()]
    return f"Kubernetes: {shortened('; '.join(reasons))}" if reasons else ""
