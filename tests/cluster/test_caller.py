"""How long the workers' calls may take that are no stage, and a store that goes away at the end."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.progress import ProgressObserver
from uttermill.flows.run import cluster_executor, metrics
from uttermill.flows.run.task_run_groups import TaskRunObserver
from uttermill.tasks import pipeline, shard
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.insight.estimating import sample_results
from uttermill.tasks.publish.outcomes import batch_outcomes, shard_batches
from uttermill.tasks.publish.writing import shards as packaged
from uttermill.tasks.runs import executor as callers
from uttermill.tasks.shard_store.index import Index
from uttermill.tasks.stages import isolate
from uttermill.tasks.storage import versions


def allowed(work: Callable[..., Any], *args: Any, isolated: bool = False, **changes: Any) -> float:
    """Wall seconds of a call as the cluster makes it."""
    settings = ClusterSettings(**changes)
    return cluster_executor.deadline_of_call(
        settings, metrics.place_of(work, args, "").step, args, isolated
    )


def test_a_probe_that_hangs_costs_little_more_than_the_timeout_of_an_item(tmp_path: Path) -> None:
    job = corpus.job(tmp_path)
    batch = (job, tmp_path, 0, pipeline.probe_batch(800))
    assert allowed(shard.probe, *batch) == 120.0  # and then item_timeout, 600 s, for the culprit
    assert allowed(shard.probe, job, tmp_path, 50, 51) == 22.0
    assert allowed(shard.probe, *batch, item_timeout=60.0) == 30.0
    assert allowed(shard.probe, *batch, item_timeout=8.0) == 8.0
    assert allowed(shard.probe, *batch, isolated=True) == 50 * (600.0 + isolate.START)


def test_few_recordings_are_probed_in_small_batches_and_many_in_larger_ones() -> None:
    counts = (1, 800, 1600, 10**7)
    assert [pipeline.probe_batch(count) for count in counts] == [50, 50, 100, 200]


def test_calls_have_deadlines_by_what_they_do(tmp_path: Path) -> None:
    job = corpus.job(tmp_path, package={"tar_hours": 0.5})
    assert allowed(packaged.write, job, tmp_path, 3) == 600.0 + 20 * 1800.0
    assert allowed(packaged.check, job, tmp_path, 3, timeout_factor=1.0) == 600.0 + 1800.0
    shards = [f"shard-{number:06d}" for number in range(10)]
    group = shard_batches.ShardBatch(tmp_path, tuple(shards))
    for work, args in ((batch_outcomes.decide, (job, group)),
                       (sample_results.plan, (job, shards, tmp_path))):  # fmt: skip
        assert allowed(work, *args) == 900.0
        assert allowed(work, job, [], tmp_path, item_timeout=30.0) == 30.0


def test_a_stage_has_its_deadline_by_its_audio() -> None:
    settings = ClusterSettings(item_timeout=10.0, timeout_factor=2.0)
    assert cluster_executor.deadline_of_audio(settings, 60.0, isolated=False) == 130.0
    assert cluster_executor.deadline_of_audio(settings, 60.0, isolated=True) == 13_000.0


@pytest.mark.parametrize("away", [(Index, "note"), (versions, "point_latest")])
def test_a_store_that_is_away_after_nothing_new_fails_no_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    away: tuple[Any, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    corpus.make(tmp_path / "in", 2)
    job = corpus.job(tmp_path)
    first, _ = corpus.run(job)
    if away[0] is Index:  # so that all is gathered, and noted again
        (job.out / "manifests/index.json").unlink()

    def gone(*_: object) -> None:
        raise RunError(f"{job.out} does not answer")

    monkeypatch.setattr(*away, gone)
    again, counts = corpus.run(job)
    assert again.path == first.path
    assert not again.new
    assert counts["transcribe"] == (0, 2)
    assert "cannot be reached" in caplog.text


def test_what_runs_calls_hears_of_no_step_and_the_other_way_round() -> None:
    """So that a run can be watched in another way without another way of running it."""
    executors = (callers.Here, callers.Alone, cluster_executor.ClusterExecutor)
    observers = (callers.Observer, ProgressObserver, TaskRunObserver)
    runs, hears = {"call", "map", "stage"}, {"step", "start", "advance", "finish", "sharded"}
    for executor in executors:
        assert runs <= {*dir(executor)}
        assert not hears & {*dir(executor)}
    for observer in observers:
        assert hears <= {*dir(observer)}
        assert not runs & {*dir(observer)}
