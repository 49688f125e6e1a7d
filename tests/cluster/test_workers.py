"""Which workers a scheduler has: as of its last event, with few requests to it."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

from uttermill.flows.cluster import worker_list
from uttermill.flows.cluster import worker_list as placements
from uttermill.flows.cluster.worker_counts import CPU, GPU
from uttermill.flows.cluster.worker_list import Placement, SchedulerElsewhere, SchedulerHere


class Client:
    """Stands for `distributed.Client`: counts requests, and lets a test send events."""

    def __init__(self, **resources: dict[str, float]) -> None:
        self.workers = dict(resources)
        self.requests = 0
        self.during: Callable[[], object] = lambda: None
        self._handler: Any = None

    def subscribe_topic(self, topic: str, handler: Any) -> None:
        assert topic == "all"
        self._handler = handler

    def unsubscribe_topic(self, topic: str) -> None:
        self._handler = None

    status = "running"

    def scheduler_info(self) -> dict[str, Any]:
        self.requests += 1
        found = {
            name: {"resources": held, "status": "running"} for name, held in self.workers.items()
        }
        self.during()
        return {"workers": found}

    def joins(self, name: str, **resources: float) -> None:
        self.workers[name] = resources
        self._handler((0.0, {"action": "add-worker", "worker": name}))

    def leaves(self, name: str) -> None:
        del self.workers[name]
        self._handler((0.0, {"action": "remove-worker", "worker": name}))


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(worker_list, "monotonic", lambda: now.s)
    return now


def test_many_questions_are_one_request(clock: SimpleNamespace) -> None:
    client = Client(a={}, b={"GPU": 1.0})
    view = SchedulerElsewhere(client)
    for _ in range(100):
        assert view.resources() == {"a": {}, "b": {"GPU": 1.0}}
    assert client.requests == 1


def test_who_leaves_is_dropped_at_once_and_who_joins_within_a_second(
    clock: SimpleNamespace,
) -> None:
    client = Client(a={}, b={})
    view = SchedulerElsewhere(client)
    assert set(view.resources()) == {"a", "b"}
    client.leaves("a")
    assert set(view.resources()) == {"b"}
    assert client.requests == 1
    for name in ("c", "d"):
        client.joins(name)
    assert set(view.resources()) == {"b"}, "at most one request a second"
    clock.s += worker_list.ASK_S + 0.1
    assert set(view.resources()) == {"b", "c", "d"}
    assert client.requests == 2


def test_who_leaves_during_a_request_does_not_come_back(clock: SimpleNamespace) -> None:
    client = Client(a={}, b={})
    client.during = lambda: client.leaves("a") if "a" in client.workers else None
    view = SchedulerElsewhere(client)
    assert set(view.resources()) == {"b"}


def test_the_list_is_read_again_now_and_then_and_when_asked(clock: SimpleNamespace) -> None:
    client = Client(a={})
    view = SchedulerElsewhere(client)
    view.resources()
    client.workers["b"] = {}  # its event was lost
    clock.s += worker_list.REFRESH_S + 1
    assert set(view.resources()) == {"a", "b"}
    client.workers["c"] = {}
    view.refresh()
    assert set(view.resources()) == {"a", "b", "c"}


def test_gpu_workers_that_join_later_are_used_and_stay_known(clock: SimpleNamespace) -> None:
    client = Client(a={})
    placement = Placement(SchedulerElsewhere(client), None, separate=None)
    assert list(placement.kinds) == [CPU]
    assert placement.there(CPU) == ["a"]
    client.joins("b", GPU=1.0)
    clock.s += worker_list.ASK_S + 0.1
    assert list(placement.kinds) == [CPU, GPU]
    assert (placement.there(CPU), placement.there(GPU)) == (["a"], ["b"])
    client.leaves("b")  # it may be restarting: what needs a GPU waits for it
    assert list(placement.kinds) == [CPU, GPU]
    assert placement.there(GPU) == []
    assert placement.restrictions(GPU) == {"resources": {GPU: 1}}


@pytest.mark.parametrize("here", [True, False])
def test_a_thousand_workers_are_looked_through_when_they_change_and_not_for_each_call(
    here: bool, clock: SimpleNamespace, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked = []

    def kind(resources: dict[str, float]) -> str:
        looked.append(resources)
        return GPU if resources.get(GPU) else CPU

    monkeypatch.setattr(placements, "_kind", kind)
    names = [f"w{number}" for number in range(1000)]
    states = {name: SimpleNamespace(resources={}) for name in names}
    client = Client(**{name: {} for name in names})
    scheduler = SimpleNamespace(workers=states, running=states)
    placement = Placement(
        SchedulerHere(scheduler) if here else SchedulerElsewhere(client), None, separate=None
    )
    for _ in range(50):
        assert placement.kinds == (CPU,)
        assert len(placement.there(CPU)) == 1000
        assert placement.restrictions(CPU) == {}
    assert len(looked) == 1000
    if here:
        del states["w7"]
    else:
        client.leaves("w7")
    for _ in range(50):
        assert len(placement.there(CPU)) == 999
        assert "w7" not in placement.there(CPU)
    assert len(looked) == 1999
