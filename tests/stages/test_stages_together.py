"""Filter and resample of a shard in one call: each keeps its own results, errors and isolation."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from distributed.scheduler import KilledWorker

from tests.helpers import corpus
from uttermill.flows.cluster import worker
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.run.cluster_executor import ClusterExecutor
from uttermill.tasks import pipeline
from uttermill.tasks.base.errors import CorruptManifest, RunError
from uttermill.tasks.runs.executor import Here
from uttermill.tasks.settings import Plugin, TranscribeSettings
from uttermill.tasks.settings.job import Done, Job
from uttermill.tasks.stages import stage

SHARD = "shard-000000"
BOTH = ("filter", "resample")


class Local:
    """Workers of which the only one is this process."""

    kinds = ("CPU",)
    started = True
    size = 1

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []

    def live(self, kind: str) -> int:
        return 1

    def left(self, address: str) -> bool:
        return False

    def submit(self, function: Any, *args: Any, kind: str) -> Any:
        self.calls.append(args)
        return Ended(function, args)


class Ended:
    """The future of a call that has run."""

    def __init__(self, function: Any, args: tuple[Any, ...]) -> None:
        self.value: Any = None
        self.error: Exception | None = None
        try:
            self.value = function(*args)
        except Exception as error:
            self.error = error

    def result(self, timeout: float | None = None) -> Any:
        if self.error is not None:
            raise self.error
        return self.value

    def done(self) -> bool:
        return True

    def cancel(self) -> None: ...


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    corpus.make(tmp_path / "in", 3)
    (tmp_path / "out").mkdir()
    me = SimpleNamespace(
        name="w", memory_manager=SimpleNamespace(memory_limit=None), log_event=lambda *_: None
    )
    monkeypatch.setattr(worker, "get_worker", lambda: me)
    (tmp_path / "scratch").mkdir()
    made = corpus.job(tmp_path, scratch=tmp_path / "scratch")
    pipeline.run_shard_stage(made, Here(), tmp_path / "listing")
    return made


def caller_of(workers: Local) -> ClusterExecutor:
    anything: Any = workers
    return ClusterExecutor(anything, ClusterSettings())


def test_one_call_serves_both_stages_with_costs_of_their_own(job: Job) -> None:
    workers = Local()
    caller = caller_of(workers)
    first = caller.stage("filter", job, SHARD, 9.0)
    second = caller.stage("resample", job, SHARD, 9.0)
    assert [args[0] for args in workers.calls] == [BOTH]
    assert [(done.stage, done.computed) for done in (first, second)] == [
        ("filter", 3),
        ("resample", 3),
    ]
    rows = caller.metrics.table().to_pylist()
    assert [(row["stage"], row["attempts"], row["error"]) for row in rows] == [
        ("filter", 1, None),
        ("resample", 1, None),
    ]
    assert all(row["cpu_seconds"] > 0 and row["queue_seconds"] >= 0 for row in rows)
    assert rows[0]["started"] < rows[1]["started"]


def test_resample_alone_and_enhancement_have_calls_of_their_own(job: Job) -> None:
    workers = Local()
    caller = caller_of(workers)
    caller.stage("resample", job, SHARD, 9.0)
    caller.stage("filter", replace(job, enhance=Plugin(use="gtcrn")), SHARD, 9.0)
    assert [args[0] for args in workers.calls] == [("resample",), ("filter",)]


def test_transcribe_joins_them_where_it_asks_no_model(job: Job) -> None:
    silent = replace(job, transcribe=TranscribeSettings(backend=Plugin(use="none")))
    workers = Local()
    caller = caller_of(workers)
    dones = [caller.stage(name, silent, SHARD, 9.0) for name in (*BOTH, "transcribe")]
    assert [done.stage for done in dones] == [*BOTH, "transcribe"]
    assert [args[0] for args in workers.calls] == [(*BOTH, "transcribe")]


def test_an_error_of_resample_is_met_at_resample(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    fault = CorruptManifest("x.parquet is cut short")
    real = stage.run

    def run(name: str, *args: Any) -> Done:
        if name == "resample":
            raise fault
        return real(name, *args)

    monkeypatch.setattr(stage, "run", run)
    workers = Local()
    caller = caller_of(workers)
    assert caller.stage("filter", job, SHARD, 9.0).computed == 3
    with pytest.raises(CorruptManifest):
        caller.stage("resample", job, SHARD, 9.0)
    rows = caller.metrics.table().to_pylist()
    assert [(row["stage"], row["error"]) for row in rows] == [
        ("filter", None),
        ("resample", "CorruptManifest"),
    ]
    monkeypatch.setattr(stage, "run", real)  # the next try is a call of its own
    assert caller.stage("resample", job, SHARD, 9.0).computed == 3
    assert [args[0] for args in workers.calls] == [BOTH, ("resample",)]


def test_an_error_of_filter_is_its_own(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    def run(*_: Any) -> Done:
        raise RunError("the server is down")

    monkeypatch.setattr(stage, "run", run)
    with pytest.raises(RunError, match="server is down"):
        caller_of(Local()).stage("filter", job, SHARD, 9.0)


def test_after_a_death_each_stage_has_calls_of_its_own(job: Job) -> None:
    class Dying(Local):
        def submit(self, function: Any, *args: Any, kind: str) -> Any:
            if not self.calls:
                self.calls.append(args)
                return Ended(died, ())
            return super().submit(function, *args, kind=kind)

    def died() -> None:
        worker: Any = SimpleNamespace(address="tcp://h:1")
        raise KilledWorker("task", worker, 0)

    workers = Dying()
    caller = caller_of(workers)
    assert caller.stage("filter", job, SHARD, 9.0).computed == 3
    assert caller.stage("resample", job, SHARD, 9.0).computed == 3
    assert [args[0] for args in workers.calls] == [BOTH, ("filter",), ("resample",)]
    assert caller.dispatcher.losses.deaths == 1
