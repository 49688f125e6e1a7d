"""What a batch queue says of our jobs: why one waits, when one is near its walltime, and which are
over. Slurm is asked by `squeue`; of other queues only their refusals are known."""

from __future__ import annotations

import subprocess
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import inf
from typing import Any

ANSWER_S = 20.0  # s that squeue may take
FIELDS = "%i|%T|%L|%l|%r"  # id, state, time left, walltime, reason (last, as it may hold a bar)
UNITS = (1, 60, 3600)  # s, from the right, of D-HH:MM:SS
#: States of which a job does not come back.
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


def ask(jobs: Mapping[Any, Any]) -> dict[Any, QueuedJob] | None:
    """The queue's word on each job (of `dask_jobqueue`, by any name) that is not over yet; None
    where the queue cannot be asked now, or ever."""
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
    queued = parsed(squeue.stdout)
    return {name: queued[number] for number, name in ids.items() if number in queued}


def parsed(listing: str) -> dict[str, QueuedJob]:
    """Jobs that are not over, by id, of what squeue prints for FIELDS."""
    jobs = {}
    for line in listing.splitlines():
        number, state, remaining, walltime, reason = line.split("|", 4)
        if state not in OVER:
            jobs[number] = QueuedJob(state, reason, seconds(remaining), seconds(walltime))
    return jobs


def seconds(words: str) -> float:
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


def refusal(error: BaseException) -> str:
    """What the queue said as it refused a job: the last line of the command's stderr, where the
    error holds one, as those of `dask_jobqueue` do."""
    _, marked, stderr = str(error).partition("stderr:\n")
    lines = [line.strip() for line in (stderr if marked else str(error)).splitlines()]
    return "; ".join(filter(None, lines)) or type(error).__name__


def _slurm_id(job: Any) -> str | None:
    """The id of a job of Slurm; None: it was refused, or is of another kind."""
    of_slurm = getattr(job, "cancel_command", None) == "scancel"
    return getattr(job, "job_id", None) if of_slurm else None
