"""Runs on a Dask worker: stages of a shard with progress events, or another call, both measured."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from distributed import get_worker

from ...tasks.base import environment
from ...tasks.plugins import trusted
from ...tasks.settings.job import Cost, Done, Job
from ...tasks.stages import stage
from ...tasks.stages.call import CostMeter
from ...tasks.storage import temporary

Result = TypeVar("Result")
TOPIC = "uttermill-progress"
SCRATCH = "uttermill"  # in a worker's own directory
#: Between two progress events of a call, s: doubled from the first to the most. A scheduler spends
#: 0.2 ms on each, and has a thousand workers.
FIRST_SECONDS, MOST_SECONDS = 0.5, 4.0


def run_stage(name: str, job: Job, shard: str, seconds: float, isolate: bool = False) -> Done:
    """Run a stage for a shard on this worker; see `tasks.stages.stage.run`."""
    worker = get_worker()
    events = Events(worker, name, shard, seconds)
    with CostMeter(str(worker.name)) as meter:
        done = stage.run(name, adapted(job, worker), shard, isolate, events)
    events.last()
    return replace(done, cost=meter.cost)


class Events:
    """Reports how much audio of a shard of `seconds` a stage has to do and has done."""

    def __init__(self, worker: Any, stage: str, shard: str, seconds: float) -> None:
        self._worker, self._about = worker, {"stage": stage, "shard": shard}
        self._left_out = seconds
        self._waiting = 0.0  # s of audio not reported yet
        self._pause, self._sent = FIRST_SECONDS, time.monotonic()

    def ahead(self, seconds: float) -> None:
        self._left_out -= seconds
        self._tell(left_out=max(0.0, self._left_out))

    def done(self, seconds: float) -> None:
        self._waiting += seconds
        if time.monotonic() - self._sent > self._pause:
            self.last()
            self._pause = min(2 * self._pause, MOST_SECONDS)

    def last(self) -> None:
        if self._waiting:
            self._tell(seconds=self._waiting)
            self._waiting, self._sent = 0.0, time.monotonic()

    def _tell(self, **facts: float) -> None:
        self._worker.log_event(TOPIC, {**self._about, **facts})


def run_call(
    function: Callable[..., Result], *args: object, **options: object
) -> tuple[Result, Cost]:
    with CostMeter(str(get_worker().name)) as meter:
        result = function(*args, **options)
    return result, meter.cost


def trusting(function: Callable[..., Result]) -> Callable[..., Result]:
    """The function, which on a worker may load the plug-ins that this process trusts."""
    return partial(_trusting, sorted(environment.own_plugins()), function)


def _trusting(plugins: Sequence[str], function: Callable[..., Result], *args: object) -> Result:
    trusted.allow(plugins)
    return function(*args)


def adapted(job: Job, worker: Any) -> Job:
    """The job with this worker's memory limit, and with temporary files on its own disk if the
    run's folder is missing there, or another user's."""
    limit = worker.memory_manager.memory_limit
    if limit:
        job = replace(job, memory_limit=int(limit))
    if job.scratch is not None and not temporary.is_ours(job.scratch):
        job = replace(job, scratch=Path(worker.local_directory) / SCRATCH)
    return job
