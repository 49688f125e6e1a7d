"""What a machine may refuse, and who says so: no home, a home that is full or damaged, no loopback,
no more threads, a full disk. One sentence, with the cause and the remedy."""

import errno
import io
import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from prefect.settings import PREFECT_SERVER_DATABASE_CONNECTION_URL, temporary_settings

from tests.helpers import corpus, tiers
from uttermill.flows import cli, machine
from uttermill.flows.run import report, run_folder
from uttermill.flows.server import login, server
from uttermill.tasks.accounting import metrics
from uttermill.tasks.base import environment
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.base.logs import log, sent_to
from uttermill.tasks.storage import owners

USER = 7710  # whom no list of users has
WITHOUT = "--set history=none does without it"

needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="only root can act as another user")


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder with recordings that any user may write to; pytest's own are its user's alone."""
    folder = Path(tempfile.mkdtemp(prefix="machine-", dir="/tmp"))
    folder.chmod(0o777)
    corpus.make(folder / "in", 2)
    yield folder
    shutil.rmtree(folder)


def ran(
    place: Path, *sets: str, within: tuple[str, ...] = (), home: str | None = "home", **more: str
) -> subprocess.CompletedProcess[str]:
    """The command `uttermill run`, started by another one; `home` None: without HOME."""
    words = ["run", "--source", "in", "--out", "out", "--yes"]
    for each in ("transcribe.backend.use=fake", "cluster.workers=1", *sets):
        words += ["--set", each]
    variables = {
        "PATH": os.environ["PATH"],
        "TMPDIR": str(place),
        "PYTHONPATH": os.getcwd(),
        **more,
    }
    if home is not None:
        variables["HOME"] = str(place / home)
    command = [*within, sys.executable, "-m", "uttermill.flows.cli", *words]
    return subprocess.run(
        command, cwd=place, env=variables, capture_output=True, text=True, timeout=120
    )


def refusal(done: subprocess.CompletedProcess[str]) -> str:
    """The sentence of a command that ended by one, and by no traceback."""
    assert done.returncode == 1, done.stdout + done.stderr
    assert "Traceback" not in done.stderr
    return done.stderr.splitlines()[-1].removeprefix("uttermill: ")


def unshared(*options: str) -> tuple[str, ...]:
    command = ("unshare", *options)
    if not shutil.which("unshare") or subprocess.run([*command, "true"]).returncode:
        pytest.skip("no namespaces here")
    return command


def nobody(*more: str) -> tuple[str, ...]:
    """Acts as a user whom no list has, and who may read all: the interpreter may be root's."""
    reads = ("--inh-caps", "+dac_read_search", "--ambient-caps", "+dac_read_search")
    return ("setpriv", "--reuid", str(USER), "--clear-groups", *reads, "--", *more)


# --- Prefect's home ----------------------------------------------------------------------------


def damaged(database: Path) -> None:
    database.write_bytes(b"no database" * 1000)


def of_the_future(database: Path) -> None:
    with closing(sqlite3.connect(database)) as made, made:
        made.execute("create table alembic_version (version_num varchar(32))")
        made.execute("insert into alembic_version values ('ffffffffffff')")


@pytest.mark.server
@pytest.mark.parametrize(
    ("spoil", "sentence"),
    [
        tiers.nightly(damaged, "is damaged: move it away"),
        (of_the_future, "a release of Prefect newer than"),
    ],
)
@pytest.mark.nightly
def test_a_database_that_prefect_cannot_use(
    place: Path, spoil: Callable[[Path], None], sentence: str
) -> None:
    spoil(place / "prefect.db")
    said = refusal(ran(place, PREFECT_HOME=str(place)))
    assert f"did not start: Prefect's database {place}/prefect.db {sentence}" in said.replace(
        "was last used by ", ""
    )
    assert said.endswith(WITHOUT)


@pytest.mark.server
@pytest.mark.nightly
def test_a_full_home(place: Path) -> None:
    (place / "small").mkdir()
    mount = f'mount -t tmpfs -o size=1m tmpfs {place}/small && exec "$@"'
    within = (*unshared("-rm"), "sh", "-c", mount, "sh")
    said = refusal(ran(place, within=within, PREFECT_HOME=f"{place}/small"))
    assert f"no space left for Prefect's database {place}/small/prefect.db: free some" in said
    assert said.endswith(WITHOUT)


@needs_root
@pytest.mark.server
@pytest.mark.nightly
def test_a_user_without_a_home(place: Path) -> None:
    """HOME is not set, and no list has this user: `/` is the home, and cannot be written."""
    done = ran(place, within=nobody(), home=None)
    said = refusal(done)
    assert "Prefect's home, /.prefect, cannot be used (Permission denied: '/.prefect')" in said
    assert "set PREFECT_HOME to a folder of yours" in said
    assert said.endswith(WITHOUT)
    done = ran(place, "history=none", within=nobody(), home=None)
    assert done.returncode == 0, done.stderr
    assert (place / "out/datasets/latest").is_dir()


def test_a_home_that_is_known_stays(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    with environment.set_up():
        assert Path.home() == tmp_path


SAID = """ERROR:    Traceback (most recent call last):
  File "aiosqlite/core.py", line 40, in run
sqlite3.{0}

The above exception was the direct cause of the following exception:

sqlalchemy.exc.{0}
[SQL: PRAGMA journal_mode = WAL;]

ERROR:    Application startup failed. Exiting.
"""


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        ("OperationalError: database or disk is full", "no space left for Prefect's database"),
        ("OperationalError: attempt to write a readonly database", "cannot be used (attempt to"),
        ("OperationalError: unable to open database file", "set PREFECT_HOME to a folder of yours"),
        ("OperationalError: disk I/O error", "on a local disk"),
        ("DatabaseError: database disk image is malformed", "is damaged"),
    ],
)
def test_the_cause_stands_amid_the_traceback(error: str, sentence: str) -> None:
    said = server.cause_told(SAID.format(error)) or ""
    assert sentence in said
    assert "\n" not in said
    assert server.known_cause(SAID.format(error))


def test_a_database_server_that_is_away_is_named_after_one_start() -> None:
    output = "Traceback\nConnectionRefusedError: [Errno 111] Connect call failed ('::1', 5432)\n"
    assert not server.known_cause(output)  # of another kind of database
    url = "postgresql+asyncpg://prefect@localhost/prefect"
    with temporary_settings({PREFECT_SERVER_DATABASE_CONNECTION_URL: url}):
        assert server.known_cause(output)
        assert server.cause_told(output) == (
            "the database of PREFECT_SERVER_DATABASE_CONNECTION_URL does not answer (Connect call "
            "failed ('::1', 5432)): start it"
        )


def test_other_causes_are_told_as_they_are() -> None:
    locked = SAID.format("OperationalError: database is locked")
    assert not server.known_cause(locked)  # another process's, for a while
    assert server.cause_told(locked) == "sqlalchemy.exc.OperationalError: database is locked"
    assert server.cause_told("INFO: up\nsomething odd\n") == "something odd"
    assert server.cause_told("listening; Permission denied once\nbye\n") == "bye"
    assert server.cause_told(" \n") is None


def test_a_server_of_another_kind_speaks_for_its_disk(monkeypatch: pytest.MonkeyPatch) -> None:
    from prefect.settings import PREFECT_API_DATABASE_CONNECTION_URL, temporary_settings

    url = "postgresql+asyncpg://user:secret@host/prefect"
    with temporary_settings({PREFECT_API_DATABASE_CONNECTION_URL: url}):
        said = server.cause_told("asyncpg.DiskFullError: No space left on device\n")
    assert said == "asyncpg.DiskFullError: No space left on device"


@pytest.mark.full
@pytest.mark.parametrize(
    ("script", "sentence"), [("exit 3", "exit 3"), tiers.nightly("kill -9 $$", "SIGKILL")]
)
def test_a_server_that_says_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, script: str, sentence: str
) -> None:
    silent = tmp_path / "python"
    silent.write_text(f"#!/bin/sh\n{script}\n")
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))
    monkeypatch.setattr(server, "ANSWER_SECONDS", 0.5)  # it never answers
    with server.LocalServer() as own, pytest.raises(RunError) as refused:
        own.wait_ready()
    ended = f"did not start: it ended ({sentence}) and it printed nothing; {WITHOUT}"
    assert str(refused.value).endswith(ended)


def test_a_login_is_kept_without_hard_links(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def link(*_: object) -> None:
        raise OSError(errno.EPERM, os.strerror(errno.EPERM))

    monkeypatch.setattr(os, "link", link)
    monkeypatch.setattr(login, "file", lambda: tmp_path / "home" / login.FILE)
    assert login.kept() == login.kept()
    assert [path.name for path in (tmp_path / "home").iterdir()] == [login.FILE]


# --- loopback and threads ----------------------------------------------------------------------


@pytest.mark.parametrize("sets", [(), ("history=none",)])
@pytest.mark.nightly
def test_a_loopback_that_is_down(place: Path, sets: tuple[str, ...]) -> None:
    said = refusal(ran(place, *sets, within=unshared("-rn")))
    assert "does not reach itself at 127.0.0.1" in said
    assert "(Network is unreachable): bring its loopback up (`ip link set lo up`)" in said


@needs_root
@pytest.mark.parametrize(
    ("sets", "what"),
    [
        ((), "a run with Prefect's server needs about"),
        (("history=none",), "a cluster of 1 worker needs"),
    ],
)
@pytest.mark.nightly
def test_a_limit_of_threads(place: Path, sets: tuple[str, ...], what: str) -> None:
    said = refusal(ran(place, *sets, within=nobody("prlimit", "--nproc=10")))
    assert said.startswith("this user may start only ")
    assert what in said
    assert "raise the limit (`ulimit -u`" in said


def test_threads_that_are_tried_end(monkeypatch: pytest.MonkeyPatch) -> None:
    before = threading.active_count()
    machine.check(20, "a test", "skip it")
    assert threading.active_count() == before
    start, left = threading.Thread.start, [3]

    def limited(thread: threading.Thread) -> None:
        left[0] -= 1
        if left[0] < 0:
            raise RuntimeError(machine.NO_THREAD)
        start(thread)

    monkeypatch.setattr(threading.Thread, "start", limited)
    with pytest.raises(RunError, match=r"only 3 more .* a test needs about 20: .* or skip it"):
        machine.check(20, "a test", "skip it")
    assert threading.active_count() == before


def test_a_thread_that_is_refused_later_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from uttermill.flows.cli import command_line

    def refused(_: object) -> None:
        raise RuntimeError(machine.NO_THREAD)

    monkeypatch.setitem(command_line.COMMANDS, "plugins", refused)
    assert cli.main(["plugins"]) == 1
    assert "this user may start no more threads" in capsys.readouterr().err


# --- a full disk -------------------------------------------------------------------------------


def error_of(code: int, path: str | None = None) -> OSError:
    return OSError(code, os.strerror(code), path)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (error_of(errno.ENOSPC, "/out/x"), "no space left on /out/x (No space left on device): "),
        (error_of(errno.EDQUOT, "/out"), "no space left on /out (Disk quota exceeded): free some"),
        (error_of(errno.EFBIG), "File too large: `ulimit -f` limits the size of files, or the"),
        (error_of(errno.EROFS, "/x"), "cannot write /x: read-only file system: mount it for"),
        (OSError(21, "", "/out/.x.tmp", None, "/out/x"), "/out/x is a folder, where a file"),
        (error_of(errno.ENOTDIR, "/out/x"), "/out/x leads through a file: move that out of the"),
        (
            OSError(13, "Failed to open local file '/out/x'. Detail: [errno 13] Permission denied"),
            "Permission denied: / belongs to user ",
        ),
        (error_of(errno.EIO, "/out/x"), "the system refused /out/x: input/output error"),
    ],
)
def test_what_the_system_refuses_in_words(
    error: OSError,
    sentence: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    from uttermill.flows.cli import command_line

    def refused(_: object) -> None:
        raise error

    monkeypatch.setitem(command_line.COMMANDS, "plugins", refused)
    assert cli.main(["plugins"]) == 1
    said = capsys.readouterr().err
    assert sentence in said
    assert "Errno" not in said


def test_a_full_disk_without_a_name_is_the_fullest(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    free = {tmp_path / "a": 10, tmp_path / "b": 0}
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage._replace(free=free[path]))
    with pytest.raises(OSError, match="/b'") as full, owners.naming(*free):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
    assert f"no space left on {tmp_path}/b " in owners.sentence(full.value)
    with pytest.raises(OSError, match="/mine'"), owners.naming(*free):
        raise error_of(errno.ENOSPC, "/mine")


def test_a_log_that_finds_no_room_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    """It printed a traceback for each line of the log."""

    class Full(io.StringIO):
        def write(self, _: str) -> int:
            raise error_of(errno.ENOSPC)

    with sent_to(run_folder.RunLog(Full()), "%(message)s"):
        log.warning("something happened")
    assert capsys.readouterr().err == ""


def test_what_could_not_be_written_beside_the_results_says_where(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: object) -> None:
        raise error_of(errno.ENOSPC)

    monkeypatch.setattr(metrics, "save", full)
    monkeypatch.setattr(report, "_same_as_before", full)
    with metrics.recorded(tmp_path):
        pass
    report.of_run(corpus.job(tmp_path), tmp_path, new=False)
    for record in caplog.messages:
        assert f"no space left on {tmp_path} (No space left on device): free some" in record
        assert "Errno" not in record
    assert len(caplog.messages) == 2
