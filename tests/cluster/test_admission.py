"""Workers that others started: who is asked what, who gets work, and what of it stays there."""

import logging
import os
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest

from tests.helpers import corpus
from uttermill.flows.cluster import worker as on_worker
from uttermill.flows.cluster import workers
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.cluster.workers import Admission
from uttermill.flows.run import run_folder
from uttermill.tasks.base.errors import RunError

OURS = version("uttermill")


class Scheduler:
    """Workers by address: what each one answers to (version, preload, access)."""

    def __init__(self, **workers: tuple[Any, Any, Any]) -> None:
        self.workers = workers
        self.asked: list[str] = []
        self.late = False

    def run(self, function: Any, *args: Any, workers: list[str], **how: Any) -> dict[str, Any]:
        if self.late:
            raise TimeoutError
        assert how["on_error"] == "return"
        index = [version, resolve_name, os.access].index(function)
        self.asked += workers if not index else []
        return {name: self.workers[name][index] for name in workers if name in self.workers}


GOOD = (OURS, 1.0, True)


def admitted(asking: Admission, *names: str) -> list[str]:
    if new := asking.new(names):
        asking.ask(new)
    return asking.admitted(names)


@pytest.mark.parametrize(
    ("answers", "words"),
    [
        (GOOD, None),
        (("9.9", 1.0, True), f"it has uttermill 9.9, and this is {OURS}; install {OURS} there"),
        ((PackageNotFoundError(), ImportError(), True), "uttermill is not installed there"),
        ((OURS, None, True), "without the preload; start it with infra/dask.yaml as DASK_CONFIG"),
        ((OURS, RunError("it was forked"), True), "cannot be loaded there: it was forked"),
        ((OURS, 1.0, False), "it cannot write to OUT; OUT has to be a folder that"),
    ],
)
def test_who_may_work(
    answers: tuple[Any, Any, Any], words: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    asking = Admission(Scheduler(a=GOOD, b=answers), Path("/out"))
    assert admitted(asking, "a", "b") == (["a"] if words else ["a", "b"])
    assert admitted(asking, "b") == ([] if words else ["b"])
    refused = asking.refused(["a", "b"])
    assert len(refused) == len(caplog.records) == bool(words)
    if words:
        assert refused[0].startswith("b: ")
        assert words in refused[0]
        assert "worker b gets no work: " in caplog.text


def test_each_one_is_asked_once_when_it_is_first_seen() -> None:
    scheduler = Scheduler(a=GOOD, b=GOOD)
    asking = Admission(scheduler)
    for _ in range(3):
        assert admitted(asking, "a") == ["a"]
    assert asking.admitted(["a", "b"]) == ["a"], "one that joins gets no work before it is asked"
    assert not asking.asked_all(["a", "b"])
    assert admitted(asking, "a", "b") == ["a", "b"]
    assert scheduler.asked == ["a", "b"]


def test_who_does_not_answer_waits_and_is_asked_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    clock = SimpleNamespace(now=100.0)
    monkeypatch.setattr(workers, "monotonic", lambda: clock.now)
    scheduler = Scheduler(a=GOOD)
    asking = Admission(scheduler)
    assert admitted(asking, "a", "dying") == ["a"]
    assert admitted(asking, "a", "dying") == ["a"]
    assert sorted(scheduler.asked) == ["a", "dying"]
    scheduler.late = True
    scheduler.workers["b"] = GOOD
    assert admitted(asking, "a", "b") == ["a"]
    scheduler.late = False
    assert admitted(asking, "a", "b") == ["a"]  # not at once: it would hold up those that answer
    assert caplog.text.count("does not answer and gets no work") == 2
    clock.now += workers.ANSWER_S + 1
    assert admitted(asking, "a", "b") == ["a", "b"]
    assert asking.refused(["a", "b", "dying"]) == []


def test_a_thousand_are_asked_by_and_by() -> None:
    names = [f"w{number}" for number in range(120)]
    scheduler = Scheduler(**dict.fromkeys(names, GOOD))
    asking = Admission(scheduler)
    sizes = []
    while new := asking.new(names):
        asking.ask(new)
        sizes.append(len(new))
    assert sizes == [50, 50, 20]
    assert asking.admitted(names) == names


def worker(folder: Path, limit: int | None = 2_000_000_000) -> Any:
    return SimpleNamespace(
        memory_manager=SimpleNamespace(memory_limit=limit), local_directory=str(folder)
    )


@pytest.mark.parametrize("scratch", ["of another host", "a link", "of another user"])
def test_a_job_elsewhere_keeps_to_the_workers_own_disk_and_memory(
    tmp_path: Path, scratch: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = worker(tmp_path / "worker")
    here = corpus.job(tmp_path, scratch=tmp_path)
    assert on_worker.adapted(here, worker(tmp_path / "worker", None)) == here
    assert on_worker.adapted(here, there).memory_limit == 2_000_000_000
    if scratch == "a link":
        (tmp_path / scratch).symlink_to(tmp_path)
    elif scratch == "of another user":
        (tmp_path / scratch).mkdir(0o777)
        monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    elsewhere = corpus.job(tmp_path, scratch=tmp_path / scratch)
    moved = on_worker.adapted(elsewhere, there).scratch
    assert moved is not None
    assert moved.is_relative_to(tmp_path / "worker")


def test_workers_elsewhere_read_the_list_in_out(tmp_path: Path) -> None:
    job, scratch = corpus.job(tmp_path), tmp_path / "scratch"
    assert run_folder.placed(job, scratch, local=True).listing.is_relative_to(scratch)
    assert run_folder.placed(job, scratch, local=False).listing.is_relative_to(job.out)


@pytest.mark.cluster
def test_a_cluster_of_unfit_workers_is_refused_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Any class by name; its workers were not told of the preload."""
    chosen = ClusterSettings(
        kind="class", class_name="tests.plugins.bare_cluster.BareCluster", workers=1,
        class_packages=("tests.plugins",),
        options={"directory": str(tmp_path / "w")},
    )  # fmt: skip
    with (
        caplog.at_level(logging.ERROR),
        Cluster(chosen, tmp_path / "s") as refused,
        pytest.raises(RunError, match=r"no worker of the Dask cluster .* without the preload"),
    ):
        refused.submit(abs, -1)
