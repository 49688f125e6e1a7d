"""Dask's own report of a run's calls: OUT/runs/<id>/dask-performance.html, on request.

`distributed.performance_report` must be entered and left by one thread, but any thread may start
the cluster; so its two halves are called separately. The page needs no network.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.cluster.cluster import Cluster
from tasks.base.logs import log
from tasks.storage import write_atomic

NAME = "dask-performance.html"


@contextmanager
def recorded(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Write a report of the cluster's work inside the context, if the cluster starts at all."""
    begun: list[tuple[float, int]] = []

    # A local function, so that its code is sent: the scheduler may have no uttermill.
    def samples(dask_scheduler: Any) -> int:
        return int(dask_scheduler.monitor.count)

    def begin(client: Any) -> None:
        try:
            client.sync(client.scheduler.get_task_stream, start=0, stop=0)  # collects from now on
            begun.append((time.time(), client.run_on_scheduler(samples)))
        except Exception as error:  # raised by the scheduler
            log.warning("there will be no performance report: %s", error)

    if not cluster.settings.performance_report:
        yield
        return
    cluster.when_started(begin)
    try:
        yield
    finally:
        if begun and cluster.started:
            _write(cluster.client, *begun[0], folder / NAME)


def _write(client: Any, start: float, samples: int, path: Path) -> None:
    """A failure is only logged: it must not hide the run's result."""
    try:
        page: str = client.sync(
            client.scheduler.performance_report, start=start, last_count=samples, mode="inline"
        )
        write_atomic(path, page.encode())
        log.info("Dask's performance report: %s", path)
    except Exception as error:  # raised by the scheduler, which may lack bokeh or be gone
        log.warning("no performance report was written: %s", error)
