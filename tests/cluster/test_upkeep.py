"""Jobs of a cluster class: a run that waits for them can be ended, a queue that gives none is a
failure with its reason, and jobs that end are replaced."""

import asyncio
import logging
import os
import signal
import threading
import time
from math import inf
from pathlib import Path
from typing import Any

import pytest

from tests.faults.command import Site, soon
from tests.helpers import corpus, tiers
from uttermill.flows.cluster import cluster as cluster_module
from uttermill.flows.cluster import local, nodes, upkeep
from uttermill.flows.cluster.calls import Dispatcher
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.cluster.upkeep import QueuedJob
from uttermill.flows.cluster.worker_counts import CPU, Fleet
from uttermill.tasks.base.errors import RunError

MODULE = "tests.plugins.queued_cluster"


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(upkeep, "CHECK_S", 0.2)
    monkeypatch.setattr(upkeep, "AGAIN_S", 0.5)
    monkeypatch.setattr(upkeep, "IDLE_S", 1.0)
    monkeypatch.setattr(cluster_module, "FIRST_S", 0.7)


@pytest.fixture
def queue(tmp_path: Path) -> Path:
    folder = tmp_path / "queue"
    folder.mkdir()
    return folder


def of_queue(queue: Path, **changes: Any) -> dict[str, Any]:
    return {
        "kind": "class", "class_name": f"{MODULE}.QueuedCluster", "class_packages": [MODULE],
        "options": {"queue": str(queue)}, "workers": 1, **changes,
    }  # fmt: skip


def opened(queue: Path, **changes: Any) -> Cluster:
    return Cluster(ClusterSettings.model_validate(of_queue(queue, **changes)), queue / "scratch")


def listed(path: Path) -> list[str]:
    return path.read_text().split() if path.exists() else []


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path, "", history="none")
    corpus.make(site.source, 1)
    return site


@pytest.mark.cluster
@pytest.mark.parametrize(
    ("number", "code"), [tiers.nightly(signal.SIGINT, 130), (signal.SIGTERM, 143)]
)
def test_one_signal_ends_a_run_that_waits_for_its_first_worker(
    number: signal.Signals, code: int, site: Site, queue: Path
) -> None:
    (queue / "hold").touch()
    settings = site.settings("out", cluster=of_queue(queue))
    with site.start("run", settings, "--json") as run:
        assert soon(lambda: "no worker has joined" in run.stderr()), run.stderr()
        began = time.monotonic()
        os.kill(run.pid, number)
        ended = run.end()
        took = time.monotonic() - began
        assert run.none_left(), run.alive()
    assert ended.code == code, ended.stderr
    assert "Traceback" not in ended.stderr
    assert took < 30, "no job is waited for"
    assert listed(queue / "over") == listed(queue / "jobs") != []


@pytest.mark.cluster
def test_a_queue_that_takes_no_job_is_a_failure_in_its_words(
    queue: Path, caplog: pytest.LogCaptureFixture
) -> None:
    (queue / "refuse").touch()
    with (
        caplog.at_level("INFO", "uttermill"),
        opened(queue, wait_for_workers=2) as cluster,
        pytest.raises(
            RunError, match=r"within 2 s: queue: no such part.* cluster\.wait_for_workers"
        ),
    ):
        _ = cluster.client
    assert "no worker has joined the scheduler: queue: no such partition" in caplog.text
    assert len(listed(queue / "jobs")) > 1, "a quota may end: it is asked again"


@pytest.mark.cluster
@pytest.mark.nightly
def test_a_queue_that_takes_jobs_late_is_waited_for(queue: Path) -> None:
    (queue / "refuse").touch()
    with opened(queue) as cluster:
        threading.Timer(1.0, (queue / "refuse").unlink).start()
        assert cluster.submit(abs, -3).result(60) == 3
    assert len(listed(queue / "jobs")) > 1


@pytest.mark.cluster
@pytest.mark.nightly
def test_a_job_that_ends_is_replaced(queue: Path) -> None:
    with opened(queue) as cluster:
        dispatcher = Dispatcher(cluster)
        first = dispatcher.run(os.getpid, within=lambda _: 60.0, isolates=False)
        (job,) = listed(queue / "jobs")
        os.killpg(int((queue / f"{job}.pid").read_text()), signal.SIGKILL)
        assert soon(lambda: cluster.live(CPU) == 0, 20)
        again = dispatcher.run(os.getpid, within=lambda _: 60.0, isolates=False)
        assert again != first
        assert len(listed(queue / "jobs")) == 2
    assert len(listed(queue / "over")) == 2


@pytest.mark.cluster
@pytest.mark.nightly
def test_workers_in_a_range_follow_the_calls(queue: Path) -> None:
    calls = 0
    with opened(queue, workers={"min": 1, "max": 2}) as cluster:
        cluster.demand = lambda: calls
        assert cluster.count(CPU) == 2
        assert cluster.submit(abs, -3).result(60) == 3
        assert len(listed(queue / "jobs")) == 1
        calls = 5
        assert soon(lambda: cluster.live(CPU) == 2)
        calls = 0
        assert soon(lambda: cluster.live(CPU) == 1)
        assert len(listed(queue / "jobs")) == 2


def test_what_squeue_prints() -> None:
    listing = (
        "7|PENDING|10:00|10:00|PartitionDown\n"
        "8|RUNNING|1-02:03:04|2-00:00:00|None\n"
        "9|PENDING|UNLIMITED|UNLIMITED|ReqNodeNotAvail, a|b\n"
        "10|COMPLETING|0:00|1:00|None\n"
    )
    assert upkeep.parsed_answer(listing) == {
        "7": QueuedJob("PENDING", "PartitionDown", 600, 600),
        "8": QueuedJob("RUNNING", "None", 93784, 172800),
        "9": QueuedJob("PENDING", "ReqNodeNotAvail, a|b", inf, inf),
    }
    words = upkeep.reason_of(upkeep.parsed_answer(listing).values())
    assert words == "Slurm: the jobs wait for PartitionDown, ReqNodeNotAvail, a|b"


@pytest.mark.parametrize(
    ("left", "walltime", "takes", "near"),
    [(600, 3600, 100, False), (200, 3600, 100, True), (inf, inf, 100, False),
     (50, 60, 100, False), (29, 60, 100, True)],
)  # fmt: skip
def test_who_takes_no_new_call(left: float, walltime: float, takes: float, near: bool) -> None:
    assert upkeep.near_its_end(QueuedJob("RUNNING", "", left, walltime), takes) is near


def test_workers_of_jobs() -> None:
    specs = {"a": {"group": ["-0", "-1"]}, 3: {}}
    assert upkeep.workers_of(specs) == {"a-0": "a", "a-1": "a", 3: 3}


# An interrupt while workers start: quick, without Dask's complaints, and nothing stays.


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
