"""Which workers a scheduler has, read with few requests to it."""

import os
import platform
import subprocess
import sys
import threading
from collections.abc import Callable
from importlib.metadata import version
from pkgutil import resolve_name
from types import SimpleNamespace
from typing import Any

import pytest

from uttermill.flows.cluster import local, workers
from uttermill.flows.cluster.worker_counts import CPU, GPU
from uttermill.flows.cluster.workers import Admission, Patience, Workers
from uttermill.tasks.base.errors import RunError


class Client:
    """Stands for `distributed.Client`: counts requests."""

    status = "running"

    def __init__(self, **resources: dict[str, float]) -> None:
        self.workers = {name: state(held) for name, held in resources.items()}
        self.requests, self.readings = 0, 0
        self.scheduler = SimpleNamespace(ncores_running=self.running)

    def sync(self, request: Callable[[], Any], callback_timeout: float) -> Any:
        self.requests += 1
        return request()

    def running(self) -> dict[str, int]:
        return {name: 1 for name, held in self.workers.items() if held.status.name == "running"}

    def run_on_scheduler(self, function: Callable[..., Any]) -> Any:
        self.readings += 1
        return function(dask_scheduler=self)

    def run(self, function: Any, *args: Any, workers: list[str], **how: Any) -> dict[str, Any]:
        answers = {version: version("uttermill"), resolve_name: 1.0, os.access: True}
        return dict.fromkeys(workers, answers[function])


def state(resources: dict[str, float], status: str = "running", calls: int = 0) -> SimpleNamespace:
    return SimpleNamespace(
        resources=resources, status=SimpleNamespace(name=status), processing=[None] * calls
    )


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> SimpleNamespace:
    now = SimpleNamespace(s=100.0)
    monkeypatch.setattr(workers, "monotonic", lambda: now.s)
    return now


def test_many_questions_are_one_request(clock: SimpleNamespace) -> None:
    client = Client(**{f"w{number}": {} for number in range(1000)})
    view = Workers(client)
    for _ in range(100):
        assert len(view.there(CPU)) == 1000
        assert view.restrictions(CPU) == {}
        assert view.kinds == (CPU,)
    assert (client.requests, client.readings) == (1, 1)
    clock.s += workers.READ_S + 0.1
    assert len(view.there(CPU)) == 1000
    assert (client.requests, client.readings) == (2, 1), "the scheduler logs each reading"
    del client.workers["w7"]
    clock.s += workers.READ_S + 0.1
    assert "w7" not in view.there(CPU)
    assert (client.requests, client.readings) == (3, 2)


def test_a_worker_that_is_known_to_have_died_is_not_counted_again(clock: SimpleNamespace) -> None:
    client = Client(a={}, b={})
    view = Workers(client)
    assert view.there(CPU) == ["a", "b"]
    del client.workers["a"]
    view.forget()
    assert view.there(CPU) == ["b"]


def test_one_that_leaves_counts_as_long_as_it_has_a_call(clock: SimpleNamespace) -> None:
    client = Client(a={})
    client.workers["b"] = state({}, "closing_gracefully", 1)
    client.workers["c"] = state({}, "closing_gracefully")
    view = Workers(client)
    assert view.there(CPU) == ["a", "b"]
    client.workers["b"].processing.clear()
    view.forget()
    assert view.there(CPU) == ["a"]


def test_a_lost_scheduler_leaves_the_last_list(clock: SimpleNamespace) -> None:
    client = Client(a={})
    view = Workers(client)
    assert view.there(CPU) == ["a"]

    def lost(function: Any, callback_timeout: float) -> Any:
        raise OSError("it hung up")

    client.sync = lost  # type: ignore[method-assign, assignment]
    view.forget()
    assert view.there(CPU) == ["a"]


def test_gpu_workers_that_join_later_are_used_and_stay_known(clock: SimpleNamespace) -> None:
    client = Client(a={})
    view = Workers(client, separate=None)
    assert [*view.kinds] == [CPU]
    assert view.there(CPU) == ["a"]
    client.workers["b"] = state({GPU: 1.0})
    view.forget()
    assert [*view.kinds] == [CPU, GPU]
    assert (view.there(CPU), view.there(GPU)) == (["a"], ["b"])
    del client.workers["b"]  # it may be restarting: what needs a GPU waits for it
    view.forget()
    assert [*view.kinds] == [CPU, GPU]
    assert view.there(GPU) == []
    assert view.restrictions(GPU) == {"resources": {GPU: 1}}


def test_calls_are_kept_from_workers_that_were_not_admitted() -> None:
    client = Client(a={})
    view = Workers(client, Admission(client), separate=False)
    view.wait(threading.Event())
    assert view.restrictions(CPU) == {}
    client.run = lambda *_, workers, **__: dict.fromkeys(workers, "9.9")  # type: ignore[method-assign]
    client.workers["b"] = state({})
    view.forget()
    assert view.restrictions(CPU) == {"workers": ["a"]}


def test_who_waits_in_vain_is_told_why() -> None:
    client, asking, open_ = Client(), Admission(Client()), threading.Event()
    patience = Patience(0.1, 7.0, "raise the setting", lambda: "no room")
    with pytest.raises(
        RunError, match=r"no worker has joined .* within 0 s: no room; .* raise the"
    ):
        Workers(client, asking, patience=patience).wait(open_)
    ended = threading.Event()
    ended.set()
    with pytest.raises(RunError, match="is closed"):
        Workers(client, asking).wait(ended)
    client = Client(a={})
    client.run = lambda *_, workers, **__: dict.fromkeys(workers, "9.9")  # type: ignore[method-assign]
    with pytest.raises(RunError, match=r"can work for this run: a: it has uttermill 9\.9"):
        Workers(client, Admission(client)).wait(open_)


def test_workers_that_go_away_are_missed_aloud_and_waited_for(
    clock: SimpleNamespace, caplog: pytest.LogCaptureFixture
) -> None:
    """As the only worker of a scheduler that others started."""
    client = Client(a={}, g={GPU: 1.0})
    view = Workers(client, patience=Patience(1800.0, 7.0, "raise cluster.wait_for_workers"))
    assert view.count(CPU)
    gone = client.workers.pop("a")
    clock.s += workers.READ_S
    for _ in range(2000):
        clock.s += 0.1
        assert not view.count(CPU)
    client.workers["a"] = gone
    clock.s += workers.READ_S + 0.1
    assert view.count(CPU)
    client.workers.clear()
    clock.s += workers.READ_S + 0.1
    assert not view.count(CPU), "its patience begins anew"
    clock.s += 1801.0
    with pytest.raises(RunError, match=r"no worker is left, and none came within 30 min; finished"):
        view.count(CPU)
    said = [(record.levelname, record.getMessage()) for record in caplog.records]
    assert len(said) == 4, "after 7 s, then once a minute"
    assert said[0] == (
        "WARNING",
        "no CPU worker is left; waiting for one for up to 30 min; if none comes, "
        "raise cluster.wait_for_workers",
    )


def test_a_lost_scheduler_ends_the_wait_for_workers() -> None:
    client = Client()
    client.status = "connecting"
    with pytest.raises(RunError, match="the connection to the Dask scheduler was lost"):
        Workers(client).count(CPU)


# Workers keep the memory that Whisper's encoder asks for again and again.

LARGEST_BLOCK = 8 * 1500**2 * 4  # bytes: the attention of Whisper base over 30 s, of one layer
SECOND_TIME = f"""
import ctypes, resource, threading

libc = ctypes.CDLL(None)
libc.malloc.restype = ctypes.c_void_p

def once():
    before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    block = ctypes.c_void_p(libc.malloc({LARGEST_BLOCK}))
    libc.memset(block, 1, {LARGEST_BLOCK})
    libc.free(block)
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before

faults = []
# A thread has ended, as in every worker: its arena is given to the next one, the engine's.
for target in (lambda: bytearray(1000), lambda: faults.extend((once(), once()))):
    thread = threading.Thread(target=target)
    thread.start()
    thread.join()
print(faults[1])
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="these are variables of glibc")
def test_memory_of_the_encoder_is_kept() -> None:
    """Fetching its pages anew in each layer took a quarter of the encoder's CPU time."""
    told = dict(os.environ) | local.worker_environment({})
    command = [sys.executable, "-c", SECOND_TIME]
    found = subprocess.run(command, env=told, capture_output=True, text=True, check=True)
    assert int(found.stdout) < 100  # 17,579 pages in all
