"""A server that stays for the next run: taken over with all it had, by one at a time, and gone in
the end."""

from __future__ import annotations

import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import closing, suppress
from pathlib import Path
from urllib.request import urlopen

import psutil
import pytest
from prefect.settings import PREFECT_HOME, temporary_settings

from tests.faults.command import Site
from tests.helpers import corpus, prefect_database
from tests.server.test_server import _runs as runs
from tests.server.test_server import wait_for
from uttermill.flows.server import kept
from uttermill.flows.server._sleep import FOLDER
from uttermill.flows.server.server import LocalServer
from uttermill.tasks.base.errors import ConfigError

pytestmark = pytest.mark.server
HOLD = 5.0  # minutes: longer than a test


@pytest.fixture
def home(empty_database: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Prefect's home, of this test alone: other tests leave runs in the one of their process. Its
    path is short, as that of a socket must be. No kept server is left in it."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        prefect_database.give(empty_database, home)
        monkeypatch.setenv("PREFECT_HOME", folder)
        with temporary_settings({PREFECT_HOME: home}):
            yield home
        lock = home / FOLDER / "lock"
        for process in psutil.process_iter() if lock.exists() else ():
            with suppress(psutil.Error):
                if any(Path(file.path) == lock for file in process.open_files()):
                    process.kill()
                    process.wait()


def left() -> int:
    """A server that was left for the next run; its pid."""
    with LocalServer(kept_minutes=HOLD) as server:
        server.wait_ready()
        return server.pid


def asleep(home: Path) -> None:
    wait_for((home / FOLDER / "socket").exists)


def test_it_sleeps_and_is_taken_over_by_one_at_a_time(home: Path) -> None:
    pid = left()
    asleep(home)
    folder = (home / FOLDER).stat()
    assert (folder.st_mode & 0o777, folder.st_uid) == (0o700, os.getuid())
    before = sum(psutil.Process(pid).cpu_times()[:2])
    time.sleep(2)
    assert sum(psutil.Process(pid).cpu_times()[:2]) - before < 0.02
    with closing(sqlite3.connect(home / "prefect.db", timeout=0)) as database:
        database.execute("BEGIN IMMEDIATE")  # nobody holds it
        database.rollback()
    with LocalServer(kept_minutes=HOLD) as server:
        url = server.wait_ready()
        assert server.pid == pid
        with LocalServer(kept_minutes=HOLD) as other:  # of a run at the same time
            other.wait_ready()
            assert other.pid != pid
        wait_for(lambda: not runs(other.pid))  # one is kept, and no more
        # Killed, it starts again at the same address, and then it is nobody's any more.
        os.kill(pid, signal.SIGKILL)
        wait_for(lambda: server.restarts == 1 and server.pid != pid)
        with urlopen(f"{url}/health", timeout=60) as reply:
            assert reply.status == 200
    assert not runs(server.pid)
    assert not runs(pid)


def test_one_that_does_not_fit_ends(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pid = left()
    asleep(home)
    monkeypatch.setattr(kept, "identity", lambda: "of another release")
    folder = kept.place()
    assert folder is not None
    assert kept.adopted(folder) is None
    wait_for(lambda: not runs(pid))
    assert kept.adopted(folder) is None, "there is none"


def test_it_ends_when_its_time_is_over_or_it_is_told_to(home: Path) -> None:
    with LocalServer(kept_minutes=1 / 60) as server:
        server.wait_ready()
    wait_for(lambda: not runs(server.pid))
    pid = left()
    asleep(home)
    os.kill(pid, signal.SIGTERM)
    wait_for(lambda: not runs(pid))


def test_two_runs_share_it_and_a_killed_one_leaves_none(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(kept.VARIABLE, str(HOLD))
    site = Site(tmp_path, "")
    corpus.make(site.source, 2)
    words = [
        sys.executable,
        "-m",
        "uttermill.flows.cli",
        "run",
        "--source",
        str(site.source),
        "--out",
    ]
    fake = ["--set", "transcribe.backend.use=fake", "--set", "cluster.workers=1"]
    for name in ("one", "two"):
        out = str(tmp_path / name)
        done = subprocess.run(
            [*words, out, *fake], capture_output=True, text=True, timeout=200, check=False
        )
        assert done.returncode == 0, done.stderr
        told = done.stderr.count("Prefect's server stays for 5 minutes")
        assert told == (1 if name == "one" else 0), "the second takes it over"
    with closing(sqlite3.connect(home / "prefect.db")) as database:
        states = database.execute("select state_name from flow_run").fetchall()
        tasks = database.execute("select name, state_name from task_run").fetchall()
    assert states == [("Completed",)] * 2
    assert {state for _, state in tasks} == {"Completed"}, tasks
    with LocalServer(kept_minutes=HOLD) as server:
        pid = server.pid
        code = (
            "from uttermill.flows.server.server import LocalServer; import sys, time\n"
            "server = LocalServer(kept_minutes=5); server.wait_ready()\n"
            "print(server.pid, flush=True); time.sleep(60)"
        )
        server.wait_ready()
    asleep(home)
    parent = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    assert int(parent.stdout.readline()) == pid
    parent.kill()
    parent.wait()
    parent.stdout.close()
    wait_for(lambda: not runs(pid))


@pytest.mark.parametrize("text", ["-1", "ten", "", "nan", "1e9"])
def test_minutes_that_are_none_are_refused(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    monkeypatch.setenv(kept.VARIABLE, text)
    with pytest.raises(ConfigError, match="give minutes from 0"):
        kept.minutes()


def test_it_is_kept_only_where_a_person_may_run_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(kept.VARIABLE)
    assert kept.minutes() == 0, "standard error is no terminal"
    monkeypatch.setattr(sys.stderr, "isatty", lambda: True)
    assert kept.minutes() == kept.MINUTES


def test_a_folder_that_others_may_enter_is_not_used(home: Path, tmp_path: Path) -> None:
    assert kept.place() is not None
    (home / FOLDER).chmod(0o755)
    assert kept.place() is None
    (home / FOLDER).chmod(0o700)
    deep = tmp_path / ("d" * 100)
    with temporary_settings({PREFECT_HOME: deep}):
        assert kept.place() is None, "no socket has so long a path"
