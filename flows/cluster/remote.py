"""What runs on a Dask worker: a stage of a shard with progress events, or another call; both
measured. Knows no Prefect."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from distributed import get_worker

from tasks.job import Cost, Done, Job
from tasks.stages import stage
from tasks.stages.cost import CostMeter

TOPIC = "uttermill-progress"
HANDED = "uttermill"  # in a worker's own temporary directory: what filter hands to resample there
EVERY = 0.5  # s between events of a worker: the scheduler is not for rows


def work(name: str, job: Job, shard: str, isolate: bool = False) -> Done:
    """Run a stage for a shard on this worker; see `tasks.stages.stage.run`."""
    worker = get_worker()
    job = at_home(job, worker)
    waiting = 0.0
    sent = time.monotonic()

    def progress(seconds: float, last: bool = False) -> None:
        nonlocal waiting, sent
        waiting += seconds
        if waiting and (last or time.monotonic() - sent > EVERY):
            worker.log_event(TOPIC, {"stage": name, "shard": shard, "seconds": waiting})
            waiting, sent = 0.0, time.monotonic()

    with CostMeter(str(worker.name)) as meter:
        done = stage.run(name, job, shard, isolate, progress)
    progress(0.0, last=True)
    return replace(done, cost=meter.cost)


def call(work: Callable[..., Any], *args: Any, **how: Any) -> tuple[Any, Cost]:
    """`work(*args)` on this worker, and what it cost."""
    with CostMeter(str(get_worker().name)) as meter:
        result = work(*args, **how)
    return result, meter.cost


def at_home(job: Job, worker: Any) -> Job:
    """The job as this worker can do it: its memory is its own, and the run's disposable folder is
    of use only where it is seen."""
    limit = worker.memory_manager.memory_limit
    if limit:
        job = replace(job, memory_limit=int(limit))
    if job.scratch is not None and not os.access(job.scratch, os.W_OK):
        job = replace(job, scratch=_handed())
    return job


def forget() -> None:
    """Remove what runs handed over on this worker: it costs those that go on a second decode."""
    shutil.rmtree(_handed(), ignore_errors=True)


def _handed() -> Path:
    return Path(tempfile.gettempdir()) / HANDED
