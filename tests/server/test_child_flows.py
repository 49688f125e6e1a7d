"""Child flow runs on a Prefect server that is too busy to answer now and then."""

from __future__ import annotations

from collections import Counter
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import httpx
import pytest
from prefect import flow
from prefect.client.orchestration import SyncPrefectClient
from prefect.exceptions import PrefectHTTPStatusError

from flows import prepare
from flows.cluster.dispatcher import Dispatcher
from flows.server import client as api
from tasks.base.errors import RunError
from tasks.settings.job import Done
from tests.helpers.shared_server import Server

SHARDS = ["a", "b", "c", "d", "e"]


def refusal(status: int) -> PrefectHTTPStatusError:
    request = httpx.Request("POST", "http://prefect.example/api/flow_runs/")
    response = httpx.Response(status, request=request, json={"detail": "busy"})
    error = httpx.HTTPStatusError(f"status {status}", request=request, response=response)
    return PrefectHTTPStatusError.from_httpx_error(error)


class Busy:
    """Makes the server's answers to child flow runs `status`, for the next `times` requests."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, status: int, times: int) -> None:
        self.left = times
        self._status = status
        self._patch = monkeypatch

    def at_start(self) -> None:
        real = SyncPrefectClient.create_flow_run

        def create(client: Any, flow: Any, **options: Any) -> Any:
            if options.get("parent_task_run_id") is not None:
                self._refuse()
            return real(client, flow, **options)

        self._patch.setattr(SyncPrefectClient, "create_flow_run", create)

    def at_end(self) -> None:
        real = SyncPrefectClient.set_flow_run_state

        def set_state(client: Any, flow_run_id: UUID, state: Any, **options: Any) -> Any:
            if state.is_completed():
                self._refuse()
            return real(client, flow_run_id, state, **options)

        self._patch.setattr(SyncPrefectClient, "set_flow_run_state", set_state)

    def _refuse(self) -> None:
        if self.left:
            self.left -= 1
            raise refusal(self._status)


@pytest.fixture
def begun(monkeypatch: pytest.MonkeyPatch) -> Counter[str]:
    """How often each shard's chain began; a child flow run takes two shards."""
    monkeypatch.setattr(prepare, "SHARDS_PER_FLOW", 2)
    monkeypatch.setattr(api, "WAITS", (0.01, 0.01, 0.01))
    return Counter()


def run(begun: Counter[str]) -> list[str]:
    def chain(shard: str) -> list[Done]:
        begun[shard] += 1
        return [Done("filter", shard, 1, 0)]

    caller: Any = SimpleNamespace(width=lambda: 2, dispatcher=Dispatcher(SimpleNamespace()))

    @flow(persist_result=False)
    def parent() -> list[str]:
        return [done.shard for (done,) in prepare.over_shards(SHARDS, chain, caller)]

    return parent()


@pytest.mark.server
@pytest.mark.parametrize("moment", ["at_start", "at_end"])
def test_a_child_flow_is_tried_again_and_no_shard_runs_twice(
    moment: str,
    begun: Counter[str],
    prefect_api: Server,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    busy = Busy(monkeypatch, 503, times=2)
    getattr(busy, moment)()
    assert run(begun) == SHARDS
    assert busy.left == 0, "control: the server refused"
    assert begun == Counter(SHARDS)
    assert "is busy (status 503); a child flow run is tried again" in caplog.text


@pytest.mark.server
def test_a_server_that_stays_busy_ends_the_run_with_a_remedy(
    begun: Counter[str], prefect_api: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    Busy(monkeypatch, 503, times=1000).at_start()
    with pytest.raises(RunError, match=r"too busy for a child flow run: status 503, 4 times .*run"):
        run(begun)
    assert not begun


@pytest.mark.parametrize("status", [404, 422, 500])
def test_other_refusals_are_raised_at_once(status: int, monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def call() -> None:
        calls.append(1)
        raise refusal(status)

    with pytest.raises(PrefectHTTPStatusError):
        api.with_retries(call, "it")
    assert len(calls) == 1


def test_no_answer_in_time_counts_as_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(api, "WAITS", (0.01, 0.01))
    slept: list[float] = []
    answers = iter([httpx.ReadTimeout("slow"), httpx.ConnectTimeout("slow"), None])

    def call() -> str:
        if (error := next(answers)) is not None:
            raise error
        return "done"

    assert api.with_retries(call, "it", slept.append) == "done"
    assert slept == [0.01, 0.01]
