"""A run's own Prefect server, and the address of the configured one.

Prefect's own temporary server drops the last events when it stops, so most task runs would be
missing from the history (measured: 43 of 300 were recorded). This one is stopped only after
`history.wait_until_recorded`. It uses the user's Prefect home, so past local runs show in any later
server's UI. If it does not start, what it printed says why, in words with a remedy.
"""

from __future__ import annotations

import logging
import os
import re
import signal
import socket
import sqlite3
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from pathlib import Path
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

import httpx
from prefect import __version__
from prefect.client.orchestration import get_client
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_CLIENT_CSRF_SUPPORT_ENABLED,
    PREFECT_CLIENT_MAX_RETRIES,
    get_current_settings,
    temporary_settings,
)

from ...tasks.base.environment import of_child, python
from ...tasks.base.errors import MillError, RunError
from ...tasks.base.logs import log
from .. import machine
from ..machine import NO_THREAD, RAISE
from ..progress import handlers
from . import login

STOP_SECONDS = 15.0
API_SECONDS = 10.0  # for each of two first requests to a configured API

#: Only the settings of Prefect that a run's own server needs; the user's other settings stay.
#: By default the recorder writes one task run per transaction (22/s on SQLite), so that history
#: is late or lost; in batches it keeps up. Prefect 3.8 truncates the flush interval to whole
#: seconds, so 1 is the minimum.
ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
    # For the library in which Prefect's docket keeps results: no type checks of its arguments, for
    # which it would recompile all its modules at each start.
    "PY_KEY_VALUE_DISABLE_BEARTYPE": "true",
}
#: Schedules, pauses and work pools are the business of a server that lives as long as a schedule.
SCHEDULING = ("SCHEDULER", "LATE_RUNS", "PAUSE_EXPIRATIONS", "CLEANUP_RECONCILER", "FOREMAN")
#: Output, and what it means. A new start changes none of these.
CAUSES = (
    (
        r"database or disk is full|No space left on device|Disk quota exceeded",
        "no space left for {database}: free some, or set PREFECT_HOME to another folder",
    ),
    (
        r"file is not a database|database disk image is malformed",
        "{database} is damaged: move it away, and a new one is made, without the old history",
    ),
    (
        r"Can't locate revision identified by",
        "{database} was last used by a release of Prefect newer than {version}, which is here: "
        "upgrade it, or set PREFECT_HOME to another folder",
    ),
    (
        r"attempt to write a readonly database|unable to open database file|disk I/O error"
        r"|locking protocol|Permission denied|Read-only file system|Not a directory|No locks avail"
        r"|Function not implemented|File exists: ",
        "Prefect's home, {home}, cannot be used ({line}): set PREFECT_HOME to a folder of yours on "
        "a local disk",
    ),
    (
        rf"{NO_THREAD}|Resource temporarily unavailable",
        f"this user may start no more threads or processes here: {RAISE}",
    ),
    (r"MemoryError|Cannot allocate memory", "no memory is left for it: give the run more"),
)
#: The last line of a traceback, which names the exception.
_RAISED = re.compile(r"^(?:[\w.]+\.)?\w*(?:Error|Exception|Exit|Interrupt)\b.*", re.MULTILINE)


def exit_cause(process: subprocess.Popen[bytes]) -> str:
    code = process.returncode
    return f"exit {code}" if code >= 0 else signal.Signals(-code).name


def stop_process(process: subprocess.Popen[bytes], patience: float = STOP_SECONDS) -> None:
    """Terminate it, then kill it; afterwards its whole process group is gone."""
    for number, seconds in ((signal.SIGTERM, patience), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError, PermissionError):  # macOS: the latter for a dead group
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            break
    if process.stdin:
        process.stdin.close()


def listening(port: int) -> socket.socket:
    try:
        return socket.create_server(("127.0.0.1", port), backlog=128, reuse_port=False)
    except OSError:
        return socket.create_server(("127.0.0.1", 0), backlog=128, reuse_port=False)


def cause_told(output: str) -> str | None:
    """The cause and its remedy; else the last error in the output, else its last line; None without
    output."""
    if (cause := known_cause(output)) is not None:
        return cause
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = _RAISED.findall(output)
    return errors[-1].strip() if errors else lines[-1] if lines else None


def _database() -> tuple[str, str]:
    """The kind of Prefect's database, such as `sqlite+aiosqlite`, and its file."""
    url = get_current_settings().server.database.connection_url
    kind, _, file = url.get_secret_value().partition(":///") if url else ("", "", "")
    return kind, file


def _locked() -> str:
    """The file of Prefect's SQLite, if nobody can write to it now; else ""."""
    kind, file = _database()
    if kind.startswith("sqlite") and Path(file).is_file():
        with closing(sqlite3.connect(file, timeout=0, isolation_level=None)) as database:
            try:
                database.execute("BEGIN IMMEDIATE")
            except sqlite3.OperationalError:
                return file
    return ""


def known_cause(output: str) -> str | None:
    """The cause if another start would fail, too, with its remedy."""
    settings = get_current_settings()
    kind, file = _database()
    if not kind.startswith("sqlite"):  # a server's own words about its disk
        refused = re.search(r"^ConnectionRefusedError: .*", output, re.MULTILINE)
        return refused and (
            "the database of PREFECT_SERVER_DATABASE_CONNECTION_URL does not answer "
            f"({refused[0].rpartition('] ')[2]}): start it"
        )
    names = {"database": f"Prefect's database {file}", "home": Path(settings.home)}
    raised = "\n".join(_RAISED.findall(output))
    for pattern, words in CAUSES:
        if match := re.search(f"^.*(?:{pattern}).*$", raised, re.MULTILINE):
            line = match[0].rpartition("Error: ")[2].rpartition("] ")[2]
            return words.format(**names, version=__version__, line=line)
    return None


STARTS = 3  # tries, when a server ends while it starts (its database is locked, say)
THREADS = 40  # that a server, its client in a run and the least cluster start
START_SECONDS = 120.0  # a new database takes 11 s on two idle cores
LOCKED_SECONDS = 10.0  # for which another program may keep Prefect's database locked all the time
SHOWN = 1 << 16  # bytes of its output that are read
ANSWER_SECONDS = 5.0  # for its first answer, on a busy machine
WATCH_SECONDS = 0.2  # between two checks whether the server has ended
REFUSALS = (401, 403)
#: Loggers whose records the terminal need not show: it has uttermill's own already, and the end of
#: a run says what its server did not record.
UNSHOWN = (
    *("uttermill", "prefect.flow_runs", "prefect.task_runs", "prefect.events"),
    *("prefect._internal.concurrency", "EventsWorker", "APILogWorker"),
)


def configured_url() -> str | None:
    return get_current_settings().api.url


class LocalServer:
    """A Prefect server that lives as long as this context manager, and starts (4 s; 11 s with a new
    database) beside other work.

    One that ends later is started again at the same URL. Requests made meanwhile wait in the
    socket, which stays open; Prefect's client repeats requests that were cut off, and its last
    events. The run only sees a slow answer.
    """

    def __init__(self, port: int = 0, scheduling: bool = False, auth: str | None = None) -> None:
        """`port` is used if it is free, else another one; `scheduling`: run schedules; `auth`: its
        password, if the user has not chosen one; by default a secret one."""
        machine.check(THREADS, "a run with Prefect's server", "set history=none")
        # Bound in this process and passed on: the URL is known at once, the port cannot be taken.
        self._socket = listening(port)
        self._scheduling = scheduling
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/api"
        self.auth = login.chosen() or auth or login.fresh()
        self._open = ExitStack()  # closed when it has stopped
        # What it prints; closed with the rest.
        self._log = self._open.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._said = 0  # bytes in it before this process
        self._locked = _locked()  # before this server, which locks it itself
        self._process = self._spawned()
        self._turn = threading.Lock()  # to start a process, or to stop for good
        self._stopped = threading.Event()
        self._watcher: threading.Thread | None = None
        self.restarts = 0  # processes after the first
        self.lost = ""  # why it is gone for good; empty while it is not

    def _spawned(self) -> subprocess.Popen[bytes]:
        """Its process, which listens on this one's socket; no command line shows its password. In
        its own process group it gets no Ctrl-C: an interrupted run still has a server to record
        that."""
        self._said = os.fstat(self._log.fileno()).st_size
        on = "true" if self._scheduling else "false"
        environment = {
            **of_child(),
            **ENVIRONMENT,
            **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": on for name in SCHEDULING},
            "PREFECT_API_URL": self.url,
            "PREFECT_SERVER_UI_API_URL": "/api",  # its own origin, by whatever name or port
            "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": self.url.removesuffix("/api"),
            "PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true",
            "PREFECT_SERVER_API_AUTH_STRING": self.auth,
            "PREFECT_API_AUTH_STRING": self.auth,
            "PREFECT_SERVER_API_HOST": "127.0.0.1",
            "PREFECT_SERVER_API_PORT": str(self.port),
        }
        if home := os.environ.get("PREFECT_HOME"):  # which may be relative
            environment["PREFECT_HOME"] = os.path.abspath(os.path.expanduser(home))
        return subprocess.Popen(
            python("-m", f"{__package__}.door", str(self._socket.fileno())),
            env=environment,
            cwd="/",  # Alembic puts the current folder first on the import path
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=[self._socket.fileno()],
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> str:
        """The API's URL once it answers; RunError if it does not. Then it is started again when it
        ends."""
        if self._watcher is not None:
            raise RuntimeError("the server is watched already")
        if not self._starts():
            raise RunError(f"the local Prefect server did not start: {self._cause()}")
        self._watcher = threading.Thread(target=self._watch, name="watch-server", daemon=True)
        self._watcher.start()
        return self.url

    def _starts(self) -> bool:
        """Whether it answers in time; a process that ends meanwhile is replaced, STARTS in all."""
        began = time.monotonic()
        starts = 1
        while time.monotonic() < began + START_SECONDS and not self._stopped.is_set():
            self._locked = self._locked and _locked()
            if self._locked and time.monotonic() > began + LOCKED_SECONDS:
                break
            if self._process.poll() is not None:
                if starts == STARTS or known_cause(self._output()) is not None:
                    break
                starts += 1
                self._respawn()
            if self._answers():
                return True
            self._stopped.wait(0.05)
        return False

    def _output(self) -> str:
        size = os.fstat(self._log.fileno()).st_size
        low = max(self._said, size - SHOWN)
        return os.pread(self._log.fileno(), size - low, low).decode(errors="replace")

    def _cause(self) -> str:
        elsewhere = "" if self._scheduling else "; --set history=none does without it"
        if file := self._locked:
            return f"another program keeps Prefect's database {file} locked: end it{elsewhere}"
        if (reason := cause_told(self._output())) is None:
            code = self._process.poll()
            ended = exit_cause(self._process) if code is not None else ""
            reason = f"it ended ({ended})" if ended else f"no answer in {START_SECONDS:.0f} s"
            reason += " and it printed nothing"
        return f"{reason}{elsewhere}"

    def _respawn(self) -> None:
        with self._turn:
            if not self._stopped.is_set():
                self.restarts += 1
                if self._process.stdin:
                    self._process.stdin.close()
                self._process = self._spawned()

    def _watch(self) -> None:
        while not self._stopped.wait(WATCH_SECONDS):
            if self._process.poll() is None or self._stopped.is_set():
                continue
            why = exit_cause(self._process)
            log.warning("the run's Prefect server ended (%s); it starts again", why)
            self._respawn()
            if not self._starts() and not self._stopped.is_set():
                self.lost = self._cause()
                log.warning("the run's Prefect server does not start again: %s", self.lost)
                with self._turn:
                    self._socket.close()  # a refusal at once is better than an answer never given
                return

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/health", timeout=ANSWER_SECONDS) as reply:
                return bool(reply.status == 200)
        except (URLError, OSError):
            return False

    def stop(self) -> None:
        with self._turn:
            first = not self._stopped.is_set()
            self._stopped.set()
        if first:
            # One that waits for a locked database hears nothing, and has written nothing.
            stop_process(self._process, 0.0 if self._locked else STOP_SECONDS)
        if self._watcher is not None:
            self._watcher.join()
        self._open.close()
        self._socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.stop()


@contextmanager
def using(url: str, auth: str | None = None) -> Iterator[str]:
    """Inside, flows and clients of this process use the API at `url`; `auth`: its password."""
    values: dict[Any, Any] = {PREFECT_API_URL: url}
    if auth is not None:
        values |= {PREFECT_API_AUTH_STRING: auth, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: True}
    with temporary_settings(values):
        yield url


def check_api(url: str) -> None:
    """Raises RunError with the remedy if the API cannot be reached or refuses this client: Prefect
    itself would fail with a traceback in the middle of the run, after up to six minutes."""
    try:
        with (
            temporary_settings({PREFECT_CLIENT_MAX_RETRIES: 1}),
            get_client(httpx_settings={"timeout": API_SECONDS}, sync_client=True) as client,
        ):
            client.request("GET", "/admin/version").raise_for_status()
    except httpx.HTTPStatusError as error:
        status = error.response.status_code
        raise RunError(
            f"the Prefect API at {url} refuses this client (status {status}); set "
            "PREFECT_API_AUTH_STRING (or PREFECT_API_KEY) to what the server asks for"
            if status in REFUSALS
            else f"the Prefect API at {url} answers with status {status}; check that "
            "PREFECT_API_URL names a Prefect server"
        ) from None
    except (httpx.HTTPError, RuntimeError) as error:
        raise RunError(
            f"the Prefect API at {url} cannot be reached ({error}); start it, or unset "
            "PREFECT_API_URL so that the run starts its own server"
        ) from None


def _is_no_sentence(record: logging.LogRecord) -> bool:
    """Whether a record has no traceback of an error that is a sentence, which Prefect prints again
    as the state that the run ends in. Those of bugs pass."""
    error = record.exc_info[1] if record.exc_info else None
    return not isinstance(error, MillError | KeyboardInterrupt)


def in_sentences() -> None:
    """From now on, Prefect's console handlers print no traceback of an error that is a sentence:
    for the process of a flow run, which Prefect started."""
    for handler in _of_prefect():
        handler.addFilter(_is_no_sentence)


def _of_prefect() -> list[logging.Handler]:
    from prefect.logging.handlers import PrefectConsoleHandler

    shown = [handler for handler in handlers() if isinstance(handler, PrefectConsoleHandler)]
    return [*shown, *logging.getLogger("prefect._internal").handlers]


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, Prefect's console handlers print only warnings, and none of UNSHOWN, which Prefect
    would print again for each flow and task run; its history keeps every record."""

    def is_shown(record: logging.LogRecord) -> bool:
        return not record.name.startswith(UNSHOWN) and _is_no_sentence(record)

    with ExitStack() as restore:
        # Else Prefect prints each batch of log records that a server which is gone did not take.
        restore.callback(setattr, logging, "raiseExceptions", logging.raiseExceptions)
        logging.raiseExceptions = False
        for handler in _of_prefect():
            restore.callback(handler.setLevel, handler.level)
            restore.callback(handler.removeFilter, is_shown)
            handler.setLevel(logging.WARNING)
            handler.addFilter(is_shown)
        yield
