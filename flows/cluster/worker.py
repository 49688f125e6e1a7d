"""Runs on a Dask worker: a stage of a shard with progress events, or another call, both measured.

Knows no Prefect.
"""

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
HANDOVER = "uttermill"  # in a worker's temporary directory: PCM that filter leaves for resample
EVENT_SECONDS = 0.5  # between two progress events of a worker, to spare the scheduler


def run_stage(name: str, job: Job, shard: str, isolate: bool = False) -> Done:
    """Run a stage for a shard on this worker; see `tasks.stages.stage.run`."""
    worker = get_worker()
    job = adapted(job, worker)
    waiting = 0.0
    sent = time.monotonic()

    def progress(seconds: float, last: bool = False) -> None:
        nonlocal waiting, sent
        waiting += seconds
        if waiting and (last or time.monotonic() - sent > EVENT_SECONDS):
            worker.log_event(TOPIC, {"stage": name, "shard": shard, "seconds": waiting})
            waiting, sent = 0.0, time.monotonic()

    with CostMeter(str(worker.name)) as meter:
        done = stage.run(name, job, shard, isolate, progress)
    progress(0.0, last=True)
    return replace(done, cost=meter.cost)


def run_call(function: Callable[..., Any], *args: Any, **options: Any) -> tuple[Any, Cost]:
    """Return `function(*args, **options)`, run on this worker, and what it cost."""
    with CostMeter(str(get_worker().name)) as meter:
        result = function(*args, **options)
    return result, meter.cost


def adapted(job: Job, worker: Any) -> Job:
    """The job with this worker's memory limit, and with a handover folder on its own disk where
    the run's folder cannot be written to."""
    limit = worker.memory_manager.memory_limit
    if limit:
        job = replace(job, memory_limit=int(limit))
    if job.scratch is not None and not os.access(job.scratch, os.W_OK):
        job = replace(job, scratch=_handover())
    return job


def remove_handover() -> None:
    """Remove what runs handed over on this worker; runs that go on decode it a second time."""
    shutil.rmtree(_handover(), ignore_errors=True)


def _handover() -> Path:
    return Path(tempfile.gettempdir()) / HANDOVER
