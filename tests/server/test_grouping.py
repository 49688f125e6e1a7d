"""Task runs that stand for a stage of a group of shards: how many, and what they show."""

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast
from uuid import UUID

import pytest
from prefect import flow
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import ArtifactFilter, FlowRunFilter
from prefect.runtime import flow_run

from tests.helpers.shared_server import Server
from uttermill.flows.cluster.calls import NotBegun
from uttermill.flows.cluster.cluster import Cluster
from uttermill.flows.cluster.settings import ClusterSettings
from uttermill.flows.run import task_run_groups
from uttermill.flows.run.cluster_executor import ClusterExecutor
from uttermill.flows.server import artifacts, history
from uttermill.tasks.base.errors import CorruptManifest, RunError
from uttermill.tasks.runs import prefect_tasks
from uttermill.tasks.runs.executor import Step
from uttermill.tasks.settings.job import Done, Job
from uttermill.tasks.stages.contract import PER_SHARD

COUNT = 40
NAMES = [f"shard-{number:06d}" for number in range(COUNT)]
MINUTES = dict.fromkeys(NAMES, 240.0)


@pytest.mark.parametrize(
    ("count", "each_seconds", "chosen", "size"),
    [
        (8, 60, False, 1),
        (9, 60, False, 9),
        (13, 900, False, 4),
        (64, 60, False, 60),
        (64, 60, True, 1),  # a size of the user's own
        (64, 1200, False, 1),
        (64, 0, False, 64),
        (100, 1200, False, 1),
        (101, 1200, False, 2),
        (101, 60, True, 2),
        (1000, 60, False, 60),
        (20_000, 900, False, 200),
        (100_000, 3600, False, 1000),
        (0, 0, False, 1),
    ],
)
def test_how_many_shards_share_a_task_run(
    count: int, each_seconds: float, chosen: bool, size: int
) -> None:
    assert task_run_groups.group_size(count, count * each_seconds, chosen) == size
    assert len(PER_SHARD) * -(-count // size) <= 400, "more than one flow run bears"


def test_groups_follow_by_name_and_begin_with_the_longest() -> None:
    seconds = {f"shard-{n:06d}": float(n % 3) for n in range(7)}
    found = task_run_groups.grouped(seconds, 3)
    assert [history.group_name(group) for group in found] == [
        "3 shards, 000000 to 000002", "3 shards, 000003 to 000005", "shard 000006",
    ]  # fmt: skip
    assert found[0] == ["shard-000002", "shard-000001", "shard-000000"]
    assert sorted(name for group in found for name in group) == sorted(seconds)


class Work:
    """Stages of shards: what each gives, or raises, in place of a cluster."""

    def __init__(self, found: dict[tuple[str, str], Any] | None = None) -> None:
        self.found = found or {}
        self.calls: list[tuple[str, str]] = []

    def __call__(self, stage: str, shard: str) -> Done:
        self.calls.append((stage, shard))
        given = self.found.get((stage, shard), 3)
        if isinstance(given, list):  # one after the other
            given = given.pop(0)
        if isinstance(given, BaseException):
            raise given
        return Done(stage, shard, given, 2)


def run(work: Work, width: int = 4) -> tuple[UUID, int, BaseException | None]:
    """Run the chains of 40 shards of a minute: the flow run, its task runs, its error."""
    workers = SimpleNamespace(size=width, settings=ClusterSettings())
    executor = ClusterExecutor(cast(Cluster, workers))
    executor.width = lambda: width  # type: ignore[method-assign]
    seen: list[Any] = []

    @flow(persist_result=False)
    def parent() -> None:
        seen.append(UUID(str(flow_run.id)))
        observer = task_run_groups.TaskRunObserver(Job(Path("out")))
        seen.append(observer)

        def chain(shard: str) -> list[Done]:
            for _ in range(2):
                try:
                    return [
                        observer.step(stage, lambda s=stage: work(s, shard), shard, 240.0)  # type: ignore[misc]
                        for stage in PER_SHARD
                    ]
                except CorruptManifest:
                    continue
            raise AssertionError

        with observer.chains(MINUTES) as order:
            found = executor.chains(order, chain)
        assert [[done.shard for done in dones] for dones in found] == [[n] * 3 for n in order]
        assert sorted(order) == NAMES

    state: Any = parent(return_state=True)
    error = None if state.is_completed() else state.result(raise_on_failure=False)
    return seen[0], seen[1].task_runs, error


def recorded(run_id: UUID, count: int) -> dict[str, Any]:
    assert history.wait_until_recorded(run_id, expected=count)
    which = FlowRunFilter.model_validate({"id": {"any_": [run_id]}})
    with get_client(sync_client=True) as client:
        return {task.name: task.state for task in client.read_task_runs(flow_run_filter=which)}


def boards(run_id: UUID) -> dict[str, str]:
    which = ArtifactFilter.model_validate({"flow_run_id": {"any_": [run_id]}})
    with get_client(sync_client=True) as client:
        found = client.read_artifacts(artifact_filter=which)
    return {str(each.description): str(each.data) for each in found if each.type == "markdown"}


@pytest.mark.quick
@pytest.mark.server
def test_a_group_has_a_task_run_a_stage_and_shows_each_shard(prefect_api: Server) -> None:
    work = Work({("transcribe", name): 0 for name in NAMES[:15]})
    run_id, count, error = run(work)
    assert error is None
    assert sorted(work.calls) == sorted((stage, name) for stage in PER_SHARD for name in NAMES)
    tasks = recorded(run_id, count)
    assert len(tasks) == count == 3 * 3
    assert {name: state.name for name, state in tasks.items() if name.startswith("tr")} == {
        "transcribe · 15 shards, 000000 to 000014 · 1.00 h": "Reused",
        "transcribe · 15 shards, 000015 to 000029 · 1.00 h": "Completed",
        "transcribe · 10 shards, 000030 to 000039 · 0.67 h": "Completed",
    }
    told = tasks["filter · 15 shards, 000015 to 000029 · 1.00 h"]
    assert told.message == "45 items computed, 30 reused"
    found = boards(run_id)
    assert set(found) == {
        "15 shards, 000000 to 000014", "15 shards, 000015 to 000029", "10 shards, 000030 to 000039",
    }  # fmt: skip
    lines = found["15 shards, 000000 to 000014"].splitlines()
    assert len(lines) == 2 + 15
    assert "shard-000007 | 0.07 | 3 computed, 2 reused, 0.0 s" in lines[2 + 7]
    assert lines[2 + 7].endswith("| 2 reused |")


@pytest.mark.server
def test_a_shard_that_fails_is_named_and_the_others_are_not_blamed(prefect_api: Server) -> None:
    work = Work({("resample", NAMES[3]): RunError("resample of shard-000003 ended 6 workers")})
    run_id, count, error = run(work, width=1)
    assert isinstance(error, RunError)
    assert "shard-000003" in str(error)
    tasks = recorded(run_id, count)
    assert {name.split(" · ")[0]: state.name for name, state in tasks.items()} == dict.fromkeys(
        PER_SHARD, "Failed"
    )
    by = {name.split(" · ")[0]: state.message for name, state in tasks.items()}
    assert "resample of shard-000003 ended 6 workers" in by["resample"]
    assert "12 of 15 shards did not finish" in by["transcribe"]
    (text,) = boards(run_id).values()
    rows = text.splitlines()[2:]
    assert "**failed**: resample of shard-000003 ended 6 workers" in rows[3]
    assert all("computed" in row for row in rows[:3])
    assert rows[4] == "| shard-000004 | 0.07 |  |  |  |"


class Ended(BaseException):
    """As Prefect ends a flow run that is cancelled."""


@pytest.mark.parametrize(
    ("error", "expected"), [(Ended(), KeyboardInterrupt), (RunError("no disk"), NotBegun)]
)
def test_a_cancelled_run_leaves_no_task_run_that_failed(
    error: BaseException, expected: type[BaseException]
) -> None:
    """Prefect shows KeyboardInterrupt as a crash without a traceback, other errors as failures."""
    raised: list[type[BaseException]] = []

    def task_run(name: str, label: str, work: Callable[[], Step]) -> Step:
        try:
            return work()
        except BaseException as ended:
            raised.append(type(ended))
            raise

    group = task_run_groups.TaskRunGroup(NAMES[:3], dict.fromkeys(NAMES, 1.0), task_run)

    def interrupted() -> None:
        with ExitStack() as ended:
            ended.push(lambda _, error, __: task_run_groups.end([group], error))
            group.step("filter", NAMES[0], lambda: Done("filter", NAMES[0], 1, 0))
            raise error

    with pytest.raises(type(error)):
        interrupted()
    assert raised == [expected]


@pytest.mark.server
def test_a_task_run_that_is_stopped_is_cancelled(prefect_api: Server) -> None:
    """Prefect alone would show that it crashed."""
    runs: list[UUID] = []

    def stop() -> Done:
        raise Ended

    @flow(persist_result=False)
    def parent() -> None:
        runs.append(UUID(str(flow_run.id)))
        prefect_tasks.run("filter", "filter · shard 000000 · 1.00 h", stop)

    with pytest.raises(Ended):
        parent()
    (state,) = recorded(runs[0], 1).values()
    assert state.name == "Cancelled"


@pytest.mark.server
def test_damage_that_a_later_stage_finds_is_made_again(prefect_api: Server) -> None:
    """In the group's task run while that runs, else in one of its own."""
    damaged = CorruptManifest("blob", "audio/x.pcm")
    work = Work({("transcribe", NAMES[0]): [damaged, 3], ("transcribe", NAMES[39]): [damaged, 3]})
    run_id, count, error = run(work, width=1)
    assert error is None
    assert work.calls.count(("filter", NAMES[0])) == work.calls.count(("filter", NAMES[39])) == 2
    tasks = recorded(run_id, count)
    assert len(tasks) == count == 9 + 2
    assert {"filter · shard 000039 · 0.07 h", "resample · shard 000039 · 0.07 h"} < set(tasks)
    assert {state.name for state in tasks.values()} == {"Completed"}


def test_posting_is_bounded_and_the_last_text_is_never_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    posted: list[tuple[str, str]] = []
    monkeypatch.setattr(
        artifacts, "post", lambda c, r, known, text, key, title: posted.append((title, text))
    )

    class Board:
        def __init__(self, title: str) -> None:
            self.title, self.over, self.text = title, False, ""

        def news(self) -> str | None:
            text, self.text = self.text, ""
            return text or None

    some = [Board(str(n)) for n in range(50)]
    shown = artifacts.Poster(some)
    run: Any = SimpleNamespace(id=UUID(int=0), run_count=1)
    shown._run = run
    for board in some:
        board.text = "first"
    client: Any = None
    shown._round(client, 20)
    shown._round(client, 20)
    assert {title for title, _ in posted} == {str(n) for n in range(40)}
    some[3].text, some[3].over = "last", True
    shown._round(client, 100)
    assert posted[-1] == ("3", "last") or ("3", "last") in posted
    assert len(posted) == 51
    shown._round(client, 100)
    assert len(posted) == 51
    assert some[3] not in shown._left
