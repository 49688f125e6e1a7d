"""The run's own Prefect server and its history: complete, private, gone with the run."""

import logging
import os
import signal
import socket
import sqlite3
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import closing, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import psutil
import pytest
from prefect import flow, task
from prefect.cache_policies import NO_CACHE
from prefect.client.orchestration import get_client
from prefect.client.schemas.filters import FlowRunFilter
from prefect.runtime import flow_run

from tests.faults.command import soon
from tests.helpers import postgres
from tests.helpers.shared_server import Server
from uttermill.flows.cli import process_setup, run_commands
from uttermill.flows.run import launch
from uttermill.flows.run.cluster_executor import map_chains
from uttermill.flows.server import history, server
from uttermill.flows.server.server import LocalServer, using
from uttermill.tasks.base.errors import RunError

# Their servers begin with a database that is made already, in this process's home.
pytestmark = [pytest.mark.server, pytest.mark.usefixtures("empty_database")]


@task(cache_policy=NO_CACHE, persist_result=False)
def nothing(number: int) -> int:
    return number


@flow(persist_result=False)
def whole() -> str:
    map_chains(list(range(20)), nothing, 4)
    return str(flow_run.id)


@flow(persist_result=False)
def one_task() -> dict[str, Any]:
    return {"task_runs": 1 + nothing(0)}


def test_a_server_lives_in_its_context_and_its_history_is_complete_after() -> None:
    history.drain(timeout=10)  # what this process sends events to: the server of earlier tests
    before = {child.pid for child in psutil.Process().children()}
    with LocalServer() as own, using(own.wait_ready()) as url:
        assert url.startswith("http://127.0.0.1:")
        assert server.configured_url() == url
        (pid,) = {child.pid for child in psutil.Process().children()} - before
        listening = [
            c.laddr.ip for c in psutil.Process(pid).net_connections("inet") if c.status == "LISTEN"
        ]
        assert listening == ["127.0.0.1"]
        assert os.getpgid(pid) != os.getpgid(0)  # the terminal's Ctrl-C does not reach it
        run = UUID(whole())
        # Control: there are 20, each of which costs the server 50 ms of CPU.
        assert not history.wait_until_recorded(run, expected=21, timeout=1)
        assert history.wait_until_recorded(run, expected=20)
        assert history.wait_until_recorded(run)
    assert not psutil.pid_exists(pid)
    assert server.configured_url() is None
    database = sqlite3.connect(Path(os.environ["PREFECT_HOME"]) / "prefect.db")
    query = "select state_name, count(*) from task_run where flow_run_id = ? group by 1"
    rows = database.execute(query, (str(run),)).fetchall()
    database.close()
    assert rows == [("Completed", 20)]


def test_what_a_server_does_not_record_in_time_is_not_waited_for(
    prefect_api: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A restarted one on a busy machine: for a minute after its result, the process went on."""
    left: list[str] = []
    monkeypatch.setattr(history, "wait_until_recorded", lambda *_, **__: False)
    monkeypatch.setattr(process_setup, "leave_threads", lambda: left.append("threads"))
    result = run_commands._launched(lambda: launch._run_flow(one_task, None))
    launch.unsent.clear()
    assert (result, left) == ({"task_runs": 1}, ["threads"])


def test_prefects_threads_say_nothing_while_the_server_stops(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Three kilobytes for each event that it did not take any more."""
    loud = logging.getLogger("prefect._internal.concurrency")
    monkeypatch.setattr(loud.parent, "handlers", [caplog.handler])

    class Stopping(SimpleNamespace):
        def __enter__(self) -> SimpleNamespace:
            return self

        def __exit__(self, *_: object) -> None:
            loud.error("Service 'EventsWorker' failed to process item")

    made = Stopping(wait_ready=lambda: "http://127.0.0.1:9/api", auth=None)
    monkeypatch.setattr(server, "LocalServer", lambda: made)
    with launch._recorded("own"):
        pass
    assert caplog.text == ""
    loud.error("of another run")
    assert "of another run" in caplog.text, "control"


@pytest.mark.nightly
def test_two_runs_may_make_the_same_new_database_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PREFECT_HOME", str(tmp_path))
    with LocalServer() as one, LocalServer() as two:
        for own in (one, two):
            own.wait_ready()
        pids = (one.pid, two.pid)
        assert all(psutil.pid_exists(pid) for pid in pids)  # none was started a second time
    assert (tmp_path / "prefect.db").exists()


PARENT = """
import sys, threading, time
from uttermill.flows.server.server import LocalServer
started = []
# Started by a thread that ends: the server must not end with it.
thread = threading.Thread(target=lambda: started.append(LocalServer()))
thread.start(); thread.join()
if sys.argv[1] == "ready":
    started[0].wait_ready(); time.sleep(0.5)
    assert started[0]._process.poll() is None
print(started[0].pid, flush=True)
time.sleep(60)
"""


@pytest.mark.parametrize("moment", ["starting", "ready"])
@pytest.mark.nightly
def test_it_dies_with_a_killed_parent(moment: str) -> None:
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, moment], stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    assert psutil.pid_exists(pid)
    parent.send_signal(signal.SIGKILL)
    parent.wait()
    parent.stdout.close()
    assert soon(lambda: not postgres.runs(pid), 25, every=0.1)


def test_a_server_that_cannot_start_is_tried_again_and_says_why(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    broken = tmp_path / "python"
    broken.write_text(f"#!/bin/sh\necho >> {tmp_path}/starts\necho database is locked\nexit 1\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.5)  # it never answers
    with (
        LocalServer() as own,
        pytest.raises(RunError, match="server did not start: database is locked"),
    ):
        own.wait_ready()
    assert (tmp_path / "starts").read_text() == "\n" * server.STARTS


def test_a_database_that_another_program_keeps_locked_is_named_soon(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Prefect itself would wait for a minute at each of its tries."""
    database = tmp_path / "prefect.db"
    monkeypatch.setattr(server, "LOCKED_SECONDS", 1.0)
    monkeypatch.setattr(server, "_database", lambda: ("sqlite+aiosqlite", str(database)))
    with closing(sqlite3.connect(database, isolation_level=None)) as other:
        other.execute("CREATE TABLE x (y)")
        other.execute("BEGIN EXCLUSIVE")
        began = time.monotonic()
        with LocalServer() as own:
            monkeypatch.setattr(own, "_answers", lambda: False)
            with pytest.raises(RunError, match=rf"database {database} locked: end it"):
                own.wait_ready()
        assert time.monotonic() - began < server.START_SECONDS / 2


#: What costs CPU is imported once, for all runs.
RUNS = """
import os, signal, sys, time
from pathlib import Path
from prefect import flow, task
from prefect.runtime import flow_run
from uttermill.flows.run.cluster_executor import map_chains
from uttermill.flows.run import run_folder
from uttermill.flows.server import history

@task
def hang(number):
    time.sleep(120)

@flow
def prepare(name, out):
    place = Path(out) / "runs" / str(time.time_ns())
    run_folder.write_prefect_note(place, str(flow_run.id), recorded=name == "ending")
    print(name, flow_run.id, os.getpid(), flush=True)
    map_chains([1, 2], hang, 2)

signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # no zombie is left of a killed one
for asked in sys.argv[2:]:
    if not os.fork():
        break
else:
    asked = sys.argv[1]
prepare(*asked.split("="))
"""


def states(run: UUID) -> Counter[tuple[str, str | None]]:
    """(kind, state) of a flow run and its task runs."""
    with get_client(sync_client=True) as client:
        flow_run = client.read_flow_run(run)
        ids = FlowRunFilter.model_validate({"id": {"any_": [run]}})
        tasks = client.read_task_runs(flow_run_filter=ids)
    return Counter([("flow", flow_run.state_name), *(("task", one.state_name) for one in tasks)])


RUNNING = {("flow", "Running"): 1, ("task", "Running"): 2}
CRASHED = {("flow", "Crashed"): 1, ("task", "Crashed"): 2}


@pytest.mark.full
def test_the_next_run_closes_what_a_killed_one_left_open(
    prefect_api: Server, tmp_path: Path
) -> None:
    outs = {"ending": tmp_path / "out", "dead": tmp_path / "out", "other": tmp_path / "other"}
    asked = [f"{name}={out}" for name, out in outs.items()]
    parent = subprocess.Popen(
        [sys.executable, "-c", RUNS, *asked], text=True, stdout=subprocess.PIPE,
        env={**os.environ, "PREFECT_API_URL": prefect_api.url}, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    runs: dict[str, UUID] = {}
    processes: dict[str, psutil.Process] = {}
    try:
        assert parent.stdout is not None
        for name, run, pid in (parent.stdout.readline().split() for _ in outs):
            runs[name], processes[name] = UUID(run), psutil.Process(int(pid))
        assert soon(lambda: all(states(each) == RUNNING for each in runs.values()), 30, every=0.1)
        for name in ("dead", "other"):
            processes[name].kill()
            processes[name].wait()

        assert history.close_dead_runs(tmp_path / "out") == (1, 2)
        assert states(runs["dead"]) == CRASHED
        assert states(runs["ending"]) == RUNNING
        assert states(runs["other"]) == RUNNING
        assert history.close_dead_runs(tmp_path / "out") == (0, 0)

        # As if its server had been killed with what the tasks had told it last.
        assert history.complete(runs["ending"]) == 2
        assert states(runs["ending"]) == {("flow", "Running"): 1, ("task", "Completed"): 2}

        # A retry of the same flow run: it stays open, its dead attempt's tasks do not.
        assert history.close_dead_runs(tmp_path / "other", me=runs["other"]) == (0, 2)
        after = {("flow", "Running"): 1, ("task", "Crashed"): 2}
        assert states(runs["other"]) == after
    finally:
        for process in processes.values():
            with suppress(psutil.NoSuchProcess):
                process.kill()
        parent.kill()
        parent.wait()
        assert parent.stdout is not None
        parent.stdout.close()


def test_stop_may_come_from_another_thread_and_twice() -> None:
    own = LocalServer()
    thread = threading.Thread(target=own.stop)
    thread.start()
    thread.join(20)
    assert not thread.is_alive()
    own.stop()


@pytest.mark.quick
def test_an_api_that_takes_connections_and_answers_none_is_named(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(server, "API_SECONDS", 0.1)
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        url = f"http://127.0.0.1:{deaf.getsockname()[1]}/api"
        with using(url), pytest.raises(RunError, match=r"reached \(timed out\); start it"):
            server.check_api(url)
