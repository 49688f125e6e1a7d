"""Dask's own report of a run's calls: OUT/runs/<id>/dask-performance.html, on request.

`distributed.performance_report` wants the thread that started the cluster to end it; here that is
any thread, so its two halves are called on their own. The page needs no network.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from flows.cluster.cluster import Cluster
from tasks.storage import write_atomic

log = logging.getLogger("uttermill")

NAME = "dask-performance.html"


@contextmanager
def recorded(cluster: Cluster, folder: Path) -> Iterator[None]:
    """Write the report of what the cluster does meanwhile, if it is started at all."""
    begun: list[tuple[float, int]] = []

    def looks(dask_scheduler: Any) -> int:  # in here, so that it is sent as it is: a scheduler
        return int(dask_scheduler.monitor.count)  # that others started may have no uttermill

    def begin(client: Any) -> None:
        try:
            client.sync(client.scheduler.get_task_stream, start=0, stop=0)  # it collects from now
            begun.append((time.time(), client.run_on_scheduler(looks)))
        except Exception as error:  # of the scheduler's own
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


def _write(client: Any, start: float, looks: int, path: Path) -> None:
    """A fault is logged: the run did its work, and its end is not to be hidden."""
    try:
        page: str = client.sync(
            client.scheduler.performance_report, start=start, last_count=looks, mode="inline"
        )
        write_atomic(path, page.encode())
        log.info("Dask's performance report: %s", path)
    except Exception as error:  # of the scheduler's own: it may lack bokeh, or be gone
        log.warning("no performance report was written: %s", error)
