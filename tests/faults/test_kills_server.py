"""The run's own Prefect server dies: the work goes on, and the history is whole all the same."""

import sqlite3
import time
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from urllib.request import urlopen
from uuid import UUID

import httpx
import psutil
import pytest

from tests.faults.command import Site, soon
from tests.faults.kills import database, end, server_of, with_own_server
from tests.helpers import corpus
from tests.helpers.shared_server import Server
from tests.plugins import gate
from uttermill.flows import prepare
from uttermill.flows.server import history
from uttermill.flows.server.server import LocalServer

pytestmark = [pytest.mark.server, pytest.mark.cluster]

COUNT = 6
HELD = gate.name("transcribe", corpus.seconds_of(3))


@pytest.fixture
def alone(tmp_path: Path, prefect_server: Server) -> Site:
    made = with_own_server(Site(tmp_path, ""))
    corpus.make(made.source, COUNT)
    return made


def settings(site: Site, history: str = "own") -> Path:
    backend = {"use": "tests.plugins.gated_asr"}
    return site.settings("out", transcribe={"backend": backend}, history=history)


@pytest.fixture
def hold(alone: Site) -> Path:
    """A file; while it is there, a run waits in its stage transcribe."""
    hold = alone.gate / f"{HELD}.hold"
    hold.touch()
    return hold


@pytest.mark.nightly
def test_it_starts_again_and_the_history_is_whole(alone: Site, hold: Path) -> None:
    with closing(sqlite3.connect(database(alone))) as opened:  # what the tests did before
        before = dict(opened.execute("select id, 1 from task_run").fetchall())
    with alone.start("run", settings(alone), "--json") as run:
        assert soon(hold.with_suffix(".held").exists), run.stderr()
        (first,) = server_of(run)
        assert end([first]) == 1
        assert soon(lambda: [s for s in server_of(run) if s.pid != first.pid]), run.stderr()
        hold.unlink()
        ended = run.end()
        assert run.none_left(), run.alive()
    assert ended.code == 0, ended.stderr
    assert ended.result["utterances"]["packaged"] == COUNT
    assert "the run's Prefect server ended (SIGKILL); it starts again" in ended.stderr
    assert ended.stderr.count("WARNING") == 1
    assert "ERROR" not in ended.stderr
    with closing(sqlite3.connect(database(alone))) as opened:
        rows = opened.execute("select id, state_name from task_run").fetchall()
    states = [state for row, state in rows if row not in before]
    assert states == ["Completed"] * (2 + 3 * ended.result["stages"]["filter"]["shards_run"])


@pytest.mark.nightly
def test_one_that_cannot_start_again_leaves_the_run_without(alone: Site, hold: Path) -> None:
    """Its database is gone for good: one sentence, and a version all the same."""
    place = database(alone)
    with alone.start("run", settings(alone), "--json") as run:
        assert soon(hold.with_suffix(".held").exists), run.stderr()
        for file in place.parent.glob("prefect.db*"):
            file.rename(file.with_name(f"away-{file.name}"))
        place.mkdir()
        assert end(server_of(run)) == 1
        hold.unlink()
        began = time.monotonic()
        ended = run.end()
        took = time.monotonic() - began
        assert run.none_left(), run.alive()
    assert ended.code == 0, ended.stderr
    assert ended.result["utterances"]["packaged"] == COUNT
    assert ended.stderr.count("does not start again") == 1
    assert "Traceback" not in ended.stderr
    assert took < 150, "three starts and some tries, also on a loaded machine"


@pytest.mark.nightly
def test_a_run_outlives_the_server_of_the_user(alone: Site, hold: Path) -> None:
    """It publishes and ends, with one warning, when PREFECT_API_URL answers no more. Prefect would
    try to send what it has for minutes."""
    with LocalServer() as theirs:
        theirs.wait_ready()
        site = replace(alone, api=theirs.url)
        with site.start("run", settings(site, "server"), "--json") as run:
            assert soon(hold.with_suffix(".held").exists), run.stderr()
            theirs.stop()
            hold.unlink()
            version = site.home / "out/datasets/v0001"
            assert soon(version.exists), run.stderr()
            began = time.monotonic()
            ended = run.end()
            took = time.monotonic() - began
            assert run.none_left(), run.alive()
    assert ended.code == 0, ended.stderr
    assert ended.result["utterances"]["packaged"] == COUNT
    (told,) = [line for line in ended.stderr.splitlines() if "WARN" in line or "ERROR" in line]
    assert told == ("WARNING Prefect's server does not answer: it does not show how this run ended")
    assert "Traceback" not in ended.stderr
    assert not [*site.home.glob("out/runs/*/error.json")]
    assert took < 60, "3 s on a quiet machine"


@pytest.mark.nightly
def test_a_run_without_its_users_server_is_interrupted_at_once(alone: Site, hold: Path) -> None:
    with LocalServer() as theirs:
        theirs.wait_ready()
        site = replace(alone, api=theirs.url)
        with site.start("run", settings(site, "server")) as run:
            assert soon(hold.with_suffix(".held").exists), run.stderr()
            theirs.stop()
            began = time.monotonic()
            run.process.terminate()
            ended = run.end()
            took = time.monotonic() - began
            assert run.none_left(), run.alive()
    assert ended.code == 143, ended.stderr
    assert "Traceback" not in ended.stderr
    assert took < 40, "2 s on a quiet machine"


def test_a_server_that_ends_before_the_run_is_named_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A run whose server was killed in its first second ended by httpx's traceback."""

    def refused(*_: object) -> None:
        raise httpx.ConnectError("connection refused")

    run = SimpleNamespace(id=UUID(int=0), name="swift-otter")
    monkeypatch.setattr(history, "current_run", lambda: run)
    monkeypatch.setattr(history, "rename", refused)
    prepare.record(corpus.job(tmp_path), "prepare", tmp_path)
    assert "0000" in (tmp_path / "prefect.json").read_text(), "what the next run closes is noted"


@pytest.fixture
def server(prefect_server: Server) -> Iterator[LocalServer]:
    with LocalServer() as own:  # on the tests' database, which is made already
        own.wait_ready()
        yield own


@pytest.mark.nightly
def test_killed_twice_it_has_the_same_url_and_killed_while_it_is_stopped_stays_dead(
    server: LocalServer,
) -> None:
    """The second time while it starts, or just after; it never answers elsewhere."""
    pids = [server.pid]
    for times in (1, 2):
        psutil.Process(pids[-1]).kill()
        assert soon(lambda times=times: server.restarts == times)  # type: ignore[misc]
        assert soon(lambda: server.pid not in pids)
        pids.append(server.pid)
    with urlopen(f"{server.url}/health", timeout=60) as reply:
        assert reply.status == 200
    assert server.restarts == 2
    psutil.Process(server.pid).kill()
    server.stop()
    assert not any(psutil.pid_exists(pid) for pid in (*pids, server.pid))
    assert not server.lost
