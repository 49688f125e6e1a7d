"""Preload of the nannies of workers that others started: on TERM (a preempted node, a walltime,
`scancel`, an evicted pod), a nanny lets its worker end its call first.

The worker takes no new call from then on. A call that takes too long is cut off, and does not count
against its shard. It imports little: every worker's nanny loads it.
"""

from __future__ import annotations

import asyncio
import os
import signal
from contextlib import suppress
from time import monotonic
from typing import Any

#: s that a call has to end. Preempted nodes and pods are killed 30 s after TERM.
DRAIN_S = 18.0
LOOK_S = 0.3  # s between two checks whether it has ended
TOPIC = "uttermill-leaving"  # of Dask's events: addresses of workers that leave


async def dask_teardown(nanny: Any) -> None:
    """Wait until the worker has no call; kill it after DRAIN_S, as its nanny would wait for it."""
    worker = nanny.worker_address
    if worker is None or nanny.process is None or not nanny.process.is_alive():
        return
    # Without a scheduler, or if it goes meanwhile, nobody waits for the call: the nanny ends it.
    with suppress(OSError):
        until = monotonic() + DRAIN_S
        scheduler = nanny.scheduler
        await scheduler.log_event(topic=TOPIC, msg=worker)
        retired = asyncio.ensure_future(
            scheduler.retire_workers(workers=[worker], close_workers=False, remove=False)
        )
        try:
            while (await scheduler.processing()).get(worker):
                if monotonic() > until:
                    # Dask then reports the death, instead of starting the call again beside it.
                    if nanny.pid is not None:
                        with suppress(ProcessLookupError):
                            os.kill(nanny.pid, signal.SIGKILL)
                    break
                await asyncio.sleep(LOOK_S)
        finally:
            retired.cancel()
