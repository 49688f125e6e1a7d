"""What runs on a Dask worker: one stage of one shard, with progress events. Knows no Prefect."""

from __future__ import annotations

import time

from distributed import get_worker

from tasks import stage
from tasks.job import Done, Job

TOPIC = "uttermill-progress"
EVERY = 0.5  # s between events of a worker: the scheduler is not for rows


def work(name: str, job: Job, shard: str, isolate: bool = False) -> Done:
    """Run a stage for a shard on this worker; see `tasks.stage.run`."""
    worker = get_worker()
    waiting = 0.0
    sent = time.monotonic()

    def progress(seconds: float, last: bool = False) -> None:
        nonlocal waiting, sent
        waiting += seconds
        if waiting and (last or time.monotonic() - sent > EVERY):
            worker.log_event(TOPIC, {"stage": name, "shard": shard, "seconds": waiting})
            waiting, sent = 0.0, time.monotonic()

    done = stage.run(name, job, shard, isolate, progress)
    progress(0.0, last=True)
    return done
