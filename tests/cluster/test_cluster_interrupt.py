"""An interrupt while workers start: quick, without Dask's complaints, and nothing stays."""

import asyncio
import logging
import os
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from uttermill.flows.cluster import local, nodes
from uttermill.flows.cluster.calls import Dispatcher
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.cluster.worker_counts import Fleet
from uttermill.tasks.base.errors import RunError


def test_a_start_that_is_cancelled_is_no_error(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Dask logs a traceback for each worker that it was starting when the cluster was closed."""
    ended = threading.Event()
    ended.set()
    with pytest.raises(RunError, match="closed before it started"):
        local.start(Fleet(1, ()), 1 << 30, tmp_path, None, False, None, [], ended)
    nannies = logging.getLogger("distributed.nanny")
    for error in (asyncio.CancelledError(), OSError("the control")):
        running = threading.Event()
        with local.silent(running):
            nannies.error("it ended", exc_info=error)
            running.set()
            nannies.error("it ended", exc_info=OSError("because it was told to"))
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [error]


def test_a_program_that_logs_hears_no_step_of_dask(caplog: pytest.LogCaptureFixture) -> None:
    scheduler = logging.getLogger("distributed.scheduler")
    with caplog.at_level(logging.INFO, "distributed"):
        with local.silent(threading.Event()):
            scheduler.info("a worker is registered")
            scheduler.warning("the control")
        scheduler.info("another cluster, of the program's own")
    assert [r.message for r in caplog.records] == [
        "the control",
        "another cluster, of the program's own",
    ]


def test_calls_that_wait_for_the_start_end_when_they_are_cancelled(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Ctrl-C waited until all workers had started: 16 s for six on two cores."""
    free, raised = threading.Event(), list[type[BaseException]]()
    monkeypatch.setattr(Cluster, "_start", lambda self: free.wait(60))
    cluster = Cluster(ClusterSettings(workers=1), tmp_path / "s")
    dispatcher = Dispatcher(cluster)

    def call() -> None:
        try:
            dispatcher.run(os.getpid, within=lambda isolated: 60.0, isolates=False)
        except BaseException as error:
            raised.append(type(error))

    thread = threading.Thread(target=call)
    thread.start()
    dispatcher.cancel()
    thread.join(20)
    assert raised == [KeyboardInterrupt]
    free.set()
    cluster.close()


@pytest.mark.cluster
def test_a_start_that_is_slow_is_ended_too(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The run closed it before its workers existed: they started, and printed at its end."""
    begun, outcomes = threading.Event(), []

    class Slow(nodes.Scheduler):
        def __init__(self, **options: Any) -> None:
            begun.set()
            time.sleep(1.5)
            super().__init__(**options)

    monkeypatch.setattr(nodes, "Scheduler", Slow)
    cluster = Cluster(ClusterSettings(workers=2), tmp_path / "s", engines={})

    def start() -> None:
        try:
            outcomes.append(cluster.client)
        except (RunError, RuntimeError) as error:
            outcomes.append(error)

    thread = threading.Thread(target=start)
    thread.start()
    assert begun.wait(30)
    cluster.close()
    thread.join(30)
    assert isinstance(outcomes[0], RunError)
    assert not (tmp_path / "s").exists()
