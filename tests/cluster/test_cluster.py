"""The cluster handle: lazy, capped, fresh processes, and nothing left behind however it ends."""

import errno
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import distributed
import psutil
import pytest
import yaml
from distributed import KilledWorker
from pydantic import ValidationError

from tests.faults.command import soon
from tests.helpers import corpus
from tests.helpers.on_worker import confined, hold_the_gil, kill_me, say, slow_result
from uttermill.flows.cli.command_line import main
from uttermill.flows.cluster import calls, local, proofs, worker_counts, workers
from uttermill.flows.cluster.calls import Dispatcher
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings, cluster_class
from uttermill.flows.cluster.worker_counts import CPU, Needs
from uttermill.flows.settings import parse
from uttermill.tasks.base import memory_limits
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.base.memory_limits import Limit
from uttermill.tasks.settings import roles
from uttermill.tasks.settings.job import Job

ROOT = Path(__file__).parents[2]
GB = 10**9
NEEDED = Needs()


#: What workers load that compute nothing: a second of CPU less for each of them.
NONE: dict[str, str] = {}


def gone(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    settings = ClusterSettings(workers=1, memory_limit="2GB")
    with Cluster(settings, tmp_path_factory.mktemp("scratch")) as cluster:
        yield cluster


@pytest.fixture
def lent(shared_cluster: dict[str, Any], tmp_path: Path) -> Iterator[Cluster]:
    """A run's handle of workers that others use before and after."""
    with Cluster(ClusterSettings.model_validate(shared_cluster), tmp_path / "lent") as cluster:
        yield cluster


# Without a cluster


def test_no_cluster_setting_is_part_of_a_recipe() -> None:
    assert ClusterSettings().recipe() == {}
    for name in ClusterSettings.model_fields:
        assert roles(ClusterSettings)[name] == "transient", name


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"kind": "address"}, "needs cluster.address"),
        ({"kind": "class"}, "needs cluster.class_name"),
        ({"memory_limit": "a lot"}, "memory_limit"),
        ({"workers": 0}, "greater than or equal to 1"),
        ({"worker": 2}, "Extra inputs"),
    ],
)
def test_bad_settings(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        ClusterSettings.model_validate(values)


def sized(
    monkeypatch: pytest.MonkeyPatch, limit: int, needed: Needs = NEEDED, **values: Any
) -> tuple[int, int]:
    """Number of workers on 8 CPUs, and memory of each, where a run may take so many bytes."""
    monkeypatch.setattr(memory_limits, "of_run", lambda: Limit(limit, "a cgroup"))
    monkeypatch.setattr("dask.system.CPU_COUNT", 8)
    settings = ClusterSettings(**values)
    workers = worker_counts.local_workers(settings, False, needed)
    return workers.size, worker_counts.memory(settings, workers, needed)


def test_sizes(monkeypatch: pytest.MonkeyPatch) -> None:
    assert sized(monkeypatch, 100 * GB) == (8, int(0.9 * (100 * GB - NEEDED.main)) // 8)
    assert sized(monkeypatch, 4 * GB)[0] == 3
    assert sized(monkeypatch, 100 * GB, workers=13)[0] == 13
    assert sized(monkeypatch, 24 * GB, memory_limit="3 GB")[1] == 3_000_000_000


def test_workers_are_as_many_as_fit_with_their_models(monkeypatch: pytest.MonkeyPatch) -> None:
    large = Needs(models=(("large", 3 * GB),), hearing=True)
    assert sized(monkeypatch, 20 * GB)[0] == 8
    assert sized(monkeypatch, 20 * GB, large)[0] == 4
    assert sized(monkeypatch, 20 * GB, large, workers=8)[0] == 5, "the least of each, if wished"
    alone, memory = sized(monkeypatch, 4 * GB, large, workers=8)
    assert alone == 1
    assert memory >= large.worker, "a worker that fits is not killed for what it needs"


def job_of(tmp_path: Path, use: str = "fake") -> Job:
    return corpus.job(tmp_path, transcribe={"backend": {"use": use}})


def test_a_limit_below_the_least_is_refused_with_the_numbers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("PREFECT_API_URL", raising=False)
    job = job_of(tmp_path)
    monkeypatch.setattr(memory_limits, "of_run", lambda: Limit(200_000_000, "the cgroup /slurm/7"))
    words = (
        r"may take 0\.20 GB of memory \(the cgroup /slurm/7\), and needs at least 0\.22 GB: "
        r"0\.11 GB for the main process and 0\.11 GB for each worker; raise the limit"
    )
    with pytest.raises(ConfigError, match=words):
        worker_counts.check_memory(job, ClusterSettings(), "none")
    with pytest.raises(ConfigError, match=r"needs at least 0\.45 GB.*set history: none"):
        worker_counts.check_memory(job, ClusterSettings(), "own")
    elsewhere = ClusterSettings(kind="address", address="tcp://h:1")
    worker_counts.check_memory(job, elsewhere, "none")
    monkeypatch.setattr(memory_limits, "of_run", lambda: Limit(231_000_000, "as measured"))
    worker_counts.check_memory(job, ClusterSettings(), "none")


def test_whisper_base_is_let_into_what_it_ran_in(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = job_of(tmp_path, "faster_whisper")
    monkeypatch.setattr(memory_limits, "of_run", lambda: Limit(600 << 20, "as measured"))
    worker_counts.check_memory(job, ClusterSettings(), "none")
    monkeypatch.setattr(memory_limits, "of_run", lambda: Limit(540 << 20, "as measured"))
    with pytest.raises(ConfigError, match=r"weights: faster_whisper 0\.07 GB"):
        worker_counts.check_memory(job, ClusterSettings(), "none")


def test_wishes_beyond_the_limit_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(memory_limits, "of_run", lambda: Limit(GB, "the cgroup /a"))
    job = job_of(tmp_path)
    with caplog.at_level("WARNING", "uttermill"):
        worker_counts.check_memory(job, ClusterSettings(workers=2), "none")
        assert caplog.text == ""
        worker_counts.check_memory(job, ClusterSettings(workers=20), "none")
        assert "cluster.workers is 20, but 6 fit into 1.00 GB (the cgroup /a)" in caplog.text
        worker_counts.check_memory(job, ClusterSettings(workers=2, memory_limit="0.6 GB"), "none")
    assert "2 workers with cluster.memory_limit 0.6 GB are more than the 1.00 GB" in caplog.text


def test_too_little_address_space_is_refused(tmp_path: Path) -> None:
    script = (
        "import resource, sys; from pathlib import Path\n"
        "from uttermill.flows.cluster.worker_counts import Needs\n"
        "from uttermill.tasks.base.memory_limits import Limit\n"
        "resource.setrlimit(resource.RLIMIT_AS, (2_300_000_000,) * 2)\n"
        "Needs().check(Limit(10**11, 'a machine'))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert "may take 2.30 GB of address space (ulimit -v), and needs 2.40 GB" in done.stderr


def test_what_is_not_installed_is_told_before_any_start(tmp_path: Path) -> None:
    settings = ClusterSettings(
        kind="class", class_name="nonesuch.Cluster", class_packages=("nonesuch",)
    )
    with pytest.raises(ConfigError, match=r"nonesuch\.Cluster.*cannot be imported"):
        Cluster(settings, tmp_path)


@pytest.mark.parametrize(
    "name",
    ["subprocess.Popen", "os.system", "distributedly.Cluster", "builtins.eval",
     "dask.utils.Dispatch", "tests.plugins.bare_cluster.BareCluster", ".Cluster", "Cluster"],
)  # fmt: skip
def test_a_class_of_another_package_is_refused_before_it_is_imported(name: str) -> None:
    before = {*sys.modules}
    cluster = {"kind": "class", "class_name": name, "options": {"args": ["true"]}}
    with pytest.raises(ConfigError, match=r"cluster\.class_packages"):
        parse({"sources": [{"path": "/in"}], "out": "/out", "cluster": cluster})
    assert {*sys.modules} == before


@pytest.mark.parametrize(
    "name", ["SSHCluster", "Client", "", "nosuch.Cluster", "nanny.Nanny", "deploy.Cluster.__init__"]
)
def test_what_is_no_cluster_class_is_refused(name: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a Dask cluster class|cannot be imported"):
        cluster_class(f"distributed.{name}".rstrip("."))
    assert issubclass(cluster_class("dask.distributed.LocalCluster"), distributed.LocalCluster)  # type: ignore[arg-type]


@pytest.mark.parametrize("command", ["run", "plan", "doctor"])
def test_every_command_refuses_another_class(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    corpus.make(tmp_path / "in", 1)
    mark = tmp_path / "ran"
    file = tmp_path / "settings.yaml"
    cluster = {"kind": "class", "class_name": "subprocess.Popen",
               "options": {"args": ["touch", str(mark)]}}  # fmt: skip
    data = {"sources": [{"path": str(tmp_path / "in")}], "out": str(tmp_path / "out")}
    file.write_text(yaml.safe_dump({**data, "cluster": cluster}))
    assert main([command, str(file)]) == 2
    assert "'subprocess.Popen' is in none of the packages" in capsys.readouterr().err
    assert not mark.exists()


def test_unused_it_starts_nothing(tmp_path: Path) -> None:
    scratch = tmp_path / "scratch"
    with Cluster(ClusterSettings(workers=2), scratch) as idle:
        idle.when_started(lambda client: client.subscribe_topic("progress", print))
        idle.forward_logging()
        assert idle.size == 2
        assert not idle.started
    assert not scratch.exists()
    with pytest.raises(RunError, match="closed"):
        _ = idle.client


@pytest.mark.parametrize("number", [errno.EROFS, errno.ENOSPC])
def test_shared_memory_that_cannot_be_written_is_named(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As `mount -o remount,ro /dev/shm` has it: Python's semaphores are files there."""

    def refused(*_: Any, **__: Any) -> None:
        raise OSError(number, os.strerror(number))

    monkeypatch.setattr("multiprocessing.synchronize.SemLock.__init__", refused)
    words = rf"/dev/shm cannot be written to \({os.strerror(number)}\): mount it writable"
    with Cluster(ClusterSettings(workers=1), tmp_path / "s") as cluster:
        with pytest.raises(RunError, match=words):
            _ = cluster.client
        with pytest.raises(RunError, match=words):  # told again, not tried again
            _ = cluster.client
    assert not (tmp_path / "s").exists()


def test_preload_refuses_a_process_that_is_no_worker() -> None:
    script = [sys.executable, "-c", "import uttermill.tasks.preload"]
    result = subprocess.run(script, cwd=ROOT, capture_output=True, text=True, check=False)
    assert "RunError: this process was forked or is not a Dask worker; set" in result.stderr


@pytest.mark.full
def test_preload_names_what_is_missing() -> None:
    code = "from uttermill.tasks.preload import warm; warm({'nonesuch': 'x'})"
    # The last word makes the command line that of a spawned process; it loads no other engines.
    script = [sys.executable, "-c", code, "multiprocessing.spawn import spawn_main"]
    result = subprocess.run(
        script, cwd=ROOT, capture_output=True, text=True, check=False,
        env={**os.environ, **local.variables(NONE)},
    )  # fmt: skip
    assert "RunError: this worker lacks nonesuch" in result.stderr
    assert "install uttermill" in result.stderr


# With one


@pytest.mark.quick
@pytest.mark.cluster
def test_workers_are_capped_whatever_the_parent_has(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OMP_NUM_THREADS", "7")
    monkeypatch.delenv("MKL_NUM_THREADS", raising=False)
    before = dict(os.environ)
    with Cluster(ClusterSettings(workers=1), tmp_path / "s", engines=NONE) as one:
        starts = [threading.Thread(target=lambda: one.client) for _ in range(4)]
        for thread in starts:
            thread.start()
        for thread in starts:
            thread.join()
        seen = one.submit(confined).result()
        assert dict(os.environ) == before
        assert len(one.client.nthreads()) == 1
    assert seen["caps"] == "1"
    assert Path(seen["temp"]).is_relative_to(tmp_path / "s")
    assert not seen["prefect"]
    assert gone(seen["pid"])
    assert not (tmp_path / "s").exists()


@pytest.mark.cluster
@pytest.mark.nightly
def test_a_nanny_that_replaces_a_worker_leaves_no_variables_behind(tmp_path: Path) -> None:
    """The next cluster's workers would load what this one's were told to."""
    before = dict(os.environ)
    with Cluster(ClusterSettings(workers=1), tmp_path / "s", engines=NONE) as one:
        pid = one.submit(os.getpid).result()
        os.kill(pid, signal.SIGKILL)
        dispatcher = Dispatcher(one)
        seen = dispatcher.run(confined, within=lambda _: 120.0, isolates=False)
        assert seen["pid"] != pid, "control: it was replaced"
        assert dict(os.environ) != before, "control: the nanny set them again"
    assert dict(os.environ) == before


@pytest.mark.cluster
def test_the_scheduler_forgets_calls(lent: Cluster) -> None:
    """Each message holds the settings of the run: a thousand a worker would be gigabytes."""

    def held(dask_scheduler: Any) -> list[int]:
        streams = dask_scheduler.stream_comms.values()
        return [len(stream.recent_message_log) for stream in streams]

    for number in range(60):
        assert lent.submit(abs, -number).result() == number
    counts = lent.client.run_on_scheduler(held)
    assert 0 < max(counts) <= 20


@pytest.mark.cluster
def test_results_that_arrive_slowly_reach_every_call(
    lent: Cluster, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Calls share one transfer; a call that looks for its worker meanwhile must not end it."""
    monkeypatch.setattr(calls, "LOOK_SECONDS", 0.05)
    dispatcher = Dispatcher(lent)

    def call(number: int) -> object:
        return dispatcher.run(slow_result, 0.2, within=lambda isolated: 60.0)

    with ThreadPoolExecutor(4) as pool:
        assert [*pool.map(call, range(12))] == [0.2] * 12


@pytest.mark.cluster
def test_events_and_records_reach_the_parent(
    lent: Cluster, caplog: pytest.LogCaptureFixture
) -> None:
    heard: list[Any] = []
    lent.when_started(lambda client: client.subscribe_topic("words", heard.append))
    lent.forward_logging()
    lent.submit(say, "words", "hello").result()
    assert soon(lambda: bool(heard) and "a record says hello" in caplog.text)
    assert heard[0][1]["word"] == "hello"


@pytest.mark.cluster
def test_the_replacement_of_a_killed_worker_is_proven(cluster: Cluster) -> None:
    before = cluster.submit(confined).result()["pid"]
    with pytest.raises(KilledWorker):
        cluster.submit(kill_me, 0.0).result()
    assert soon(lambda: len(cluster.client.nthreads()) == 1)
    workers = cluster.client.run(proofs.gather)
    for proof in (*proofs.PROOFS, proofs.pinned):
        assert proof(workers).ok, proof(workers)
    [seen] = cluster.client.run(confined).values()
    assert seen["pid"] != before
    assert not seen["daemon"]


@pytest.mark.cluster
@pytest.mark.full
def test_a_call_past_its_deadline_is_ended_with_its_process(tmp_path: Path) -> None:
    with Cluster(ClusterSettings(workers=1), tmp_path / "s", engines=NONE) as one:
        future = one.submit(hold_the_gil)
        assert soon(lambda: any(one.client.processing().values()))
        time.sleep(0.3)
        assert one.restart_worker_of(future)
        assert future.cancelled()
        ended = one.submit(abs, -2)
        assert ended.result(timeout=60) == 2
        assert not one.restart_worker_of(ended)


@pytest.mark.cluster
@pytest.mark.nightly
def test_close_is_quick_even_when_a_worker_holds_the_gil(tmp_path: Path) -> None:
    busy = Cluster(ClusterSettings(workers=1), tmp_path / "s", engines=NONE)
    pid = busy.submit(os.getpid).result()
    busy.submit(hold_the_gil)
    time.sleep(0.3)
    start = time.monotonic()
    busy.close()
    busy.close()
    assert time.monotonic() - start < 30, "nobody waits for the hour in C code"
    assert gone(pid)
    assert not (tmp_path / "s").exists()


@pytest.mark.cluster
def test_another_version_does_not_join(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(local, "version", lambda name: "9.9")
    with Cluster(ClusterSettings(workers=1), tmp_path / "s", engines=NONE) as other:
        with pytest.raises(RunError, match=r"this worker has uttermill .* and the client 9\.9"):
            _ = other.client
        assert not (tmp_path / "s").exists()


@pytest.mark.cluster
def test_a_scheduler_by_its_address(
    shared_cluster: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Any] = []
    with Cluster(ClusterSettings.model_validate(shared_cluster), tmp_path / "s") as second:
        assert second.size == 2
        assert second.submit(abs, -3).result() == 3
        with monkeypatch.context() as patch:
            patch.setattr(workers, "READ_S", 3600.0)
            patch.setattr(workers.Workers, "_read", asked.append)
            assert [second.submit(abs, -n).result() for n in range(20)] == list(range(20))
            assert second.live(CPU) == 2
        assert not asked, "who is there is known without a request for each call"
    with Cluster(ClusterSettings.model_validate(shared_cluster), tmp_path / "s") as third:
        assert third.size == 2
    assert not (tmp_path / "s").exists()
