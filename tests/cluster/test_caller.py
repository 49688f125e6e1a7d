"""How long the workers' calls may take that are no stage, and a store that goes away at the end."""

import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.progress import Progress
from uttermill.flows.run import cluster_executor
from uttermill.flows.run.task_run_groups import TaskRunObserver
from uttermill.tasks import pipeline
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.publish.outcomes import shard_batches
from uttermill.tasks.runs import executor as callers
from uttermill.tasks.runs import publish
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.shard_store.index import Index
from uttermill.tasks.stages import isolate, shard
from uttermill.tasks.stages.call import CORPUS, SHARD_EACH, Call, Limits, of_shards
from uttermill.tasks.storage import versions


def allowed(call: Call[Any], *args: Any, isolated: bool = False, **changes: Any) -> float:
    """Wall seconds of a call as the cluster makes it."""
    settings = ClusterSettings(**changes)
    return call.deadline(Limits(settings.item_timeout, settings.timeout_factor), isolated, args)


def test_a_probe_that_hangs_costs_little_more_than_the_timeout_of_an_item(tmp_path: Path) -> None:
    job = corpus.job(tmp_path)
    batch = (job, tmp_path, 0, pipeline.probe_batch(800), 1_000_000)
    assert allowed(shard.PROBE, *batch) == 120.1  # and then item_timeout, 600 s, for the culprit
    assert allowed(shard.PROBE, job, tmp_path, 50, 51, 0) == 22.0
    assert allowed(shard.PROBE, *batch, item_timeout=60.0) == 30.1
    assert allowed(shard.PROBE, *batch, item_timeout=8.0) == 8.1
    assert allowed(shard.PROBE, *batch, isolated=True) == 50 * (600.0 + isolate.START)


def test_the_deadline_of_a_probe_allows_for_hashing_large_recordings(tmp_path: Path) -> None:
    job = corpus.job(tmp_path)
    assert allowed(shard.PROBE, job, tmp_path, 0, 1, 4_400_000_044) > 4 * 60
    rows = pa.table({"size": pa.array([5, None, 7, 11], pa.int64())})
    path = tmp_path / "rows.parquet"
    pq.write_table(rows, path)
    assert shard.sizes(path, 3) == [(0, 12), (3, 11)]


def test_few_recordings_are_probed_in_small_batches_and_many_in_larger_ones() -> None:
    counts = (1, 800, 1600, 10**7)
    assert [pipeline.probe_batch(count) for count in counts] == [50, 50, 100, 200]


def test_calls_have_deadlines_by_what_they_do(tmp_path: Path) -> None:
    job = corpus.job(tmp_path, package={"tar_hours": 0.5})
    assert allowed(publish.WRITE, job, tmp_path, 3) == 600.0 + 2 * 20 * 1800.0
    assert allowed(publish.WRITE, job, tmp_path, 3, timeout_factor=1.0) == 600.0 + 2 * 1800.0
    shards = [f"shard-{number:06d}" for number in range(10)]
    group = shard_batches.ShardBatch(tmp_path, tuple(shards))
    assert allowed(publish.COLLECT, job, group) == 900.0
    assert allowed(publish.COLLECT, job, group, item_timeout=1000.0) == 1300.0


class Timed(Executor):
    """Notes the shortest deadline of each step, with a short `item_timeout`."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    def call(self, call: Call[Any], *args: Any) -> Any:
        allowed_now = allowed(call, *args, item_timeout=30.0)
        self.seconds[call.step] = min(allowed_now, self.seconds.get(call.step, allowed_now))
        return super().call(call, *args)


def test_a_short_timeout_of_items_kills_no_call_on_the_whole_corpus(tmp_path: Path) -> None:
    """Choosing the clips had 30 s, however many there were."""
    corpus.make(tmp_path / "in", 2)
    timed = Timed()
    pipeline.run(corpus.job(tmp_path), timed, callers.Observer())
    assert timed.seconds.pop("probe") < 30.0
    for step in ("facts", "gather"):
        assert timed.seconds.pop(step) >= CORPUS + SHARD_EACH
    assert all(seconds > 3600.0 for seconds in timed.seconds.values()), "those of tars"


def test_a_deadline_of_the_corpus_grows_with_it() -> None:
    limits = Limits(30.0, 20.0)
    assert of_shards(1000, limits, False, ()) == CORPUS + 1000 * SHARD_EACH
    assert of_shards(0, limits._replace(item=7200.0), False, ()) == 7200.0


def test_a_stage_has_its_deadline_by_its_audio() -> None:
    limits = Limits(item=10.0, factor=2.0)
    assert cluster_executor.deadline_of_stage(limits, 60.0, isolated=False) == 130.0
    assert cluster_executor.deadline_of_stage(limits, 60.0, isolated=True) == 13_000.0


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


def test_the_time_of_shard_is_without_the_wait_for_workers(tmp_path: Path) -> None:
    class Late(Executor):
        def ready(self) -> float:
            time.sleep(0.5)
            return 0.5

    began = time.monotonic()
    corpus.make(tmp_path / "in", 2)
    ended = pipeline.run(corpus.job(tmp_path), Late(), callers.Observer())
    wall = time.monotonic() - began
    assert ended.totals.stages["shard"]["items_computed"] > 0
    assert sum(stage["seconds"] for stage in ended.totals.stages.values()) < wall - 0.4


def test_what_runs_calls_hears_of_no_step_and_the_other_way_round() -> None:
    """So that a run can be watched in another way without another way of running it."""
    executors = (callers.Executor, callers.Alone, cluster_executor.ClusterExecutor)
    observers = (callers.Observer, Progress, TaskRunObserver)
    runs, hears = {"call", "map", "stage"}, {"step", "start", "advance", "finish", "sharded"}
    for executor in executors:
        assert runs <= {*dir(executor)}
        assert not hears & {*dir(executor)}
    for observer in observers:
        assert hears <= {*dir(observer)}
        assert not runs & {*dir(observer)}
