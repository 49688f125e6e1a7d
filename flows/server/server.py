"""A run's own Prefect server, and the address of the configured one.

Prefect's own temporary server drops the last events when it stops, so most task runs would be
missing from the history (measured: 43 of 300 were recorded). This one is stopped only after
`history.wait_until_recorded`. It uses the user's Prefect home, so past local runs show in any later
server's UI.
"""

from __future__ import annotations

import logging
import os
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from subprocess import Popen
from typing import Any, Self
from urllib.error import URLError
from urllib.request import urlopen

import httpx
from prefect.client.orchestration import get_client
from prefect.settings import (
    PREFECT_API_AUTH_STRING,
    PREFECT_API_URL,
    PREFECT_CLIENT_CSRF_SUPPORT_ENABLED,
    get_current_settings,
    temporary_settings,
)

from ...tasks.base.errors import MillError, RunError
from ...tasks.base.logs import log
from .. import machine
from ..progress import handlers
from . import login, process
from .process import listening

STARTS = 3  # tries, when a server ends while it starts (its database is locked, say)
THREADS = 40  # that a server, its client in a run and the least cluster start
START_SECONDS = 120.0  # a new database takes 11 s on two idle cores
SHOWN = 1 << 16  # bytes of its output that are read
ANSWER_SECONDS = 5.0  # for its first answer, on a busy machine
WATCH_SECONDS = 0.2  # between two checks whether the server has ended
REFUSALS = (401, 403)
#: Loggers whose records the terminal need not show: it has uttermill's own already, and the end of
#: a run says what its server did not record.
UNSHOWN = (
    "uttermill",
    "prefect.flow_runs",
    "prefect.task_runs",
    "prefect.events",
    "prefect._internal.concurrency",
    "EventsWorker",
    "APILogWorker",
)


def configured_url() -> str | None:
    """The API that the environment or the active Prefect profile names, if any."""
    return get_current_settings().api.url


class LocalServer:
    """A Prefect server that lives as long as this context manager.

    It is made at once, so that its start (4 s; 11 s with a new database) overlaps other work;
    `wait_ready()` returns when the server answers.

    A server that ends later (killed, out of memory) is started again at the same URL. Requests made
    meanwhile wait in the socket, which stays open; Prefect's client repeats requests that were cut
    off, and its last events. The run only sees a slow answer.
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
        self._process = self._spawned()
        self._turn = threading.Lock()  # to start a process, or to stop for good
        self._stopped = threading.Event()
        self._watcher: threading.Thread | None = None
        self.restarts = 0  # processes after the first
        self.lost = ""  # why it is gone for good; empty while it is not

    def _spawned(self) -> Popen[bytes]:
        self._said = os.fstat(self._log.fileno()).st_size
        return process.started(self._socket, self.url, self.auth, self._scheduling, self._log)

    @property
    def pid(self) -> int:
        return self._process.pid

    def wait_ready(self) -> str:
        """The API's URL once it answers; RunError with the cause if it does not.

        From then on the server is watched, and started again when it ends.
        """
        if self._watcher is not None:
            raise RuntimeError("the server is watched already")
        if not self._starts():
            raise RunError(f"the local Prefect server did not start: {self._cause()}")
        self._watcher = threading.Thread(target=self._watch, name="watch-server", daemon=True)
        self._watcher.start()
        return self.url

    def _starts(self) -> bool:
        """Whether it answers in time; a process that ends meanwhile is replaced, STARTS in all."""
        until = time.monotonic() + START_SECONDS
        starts = 1
        while time.monotonic() < until and not self._stopped.is_set():
            if self._process.poll() is not None:
                if starts == STARTS or process.is_lasting(self._output()):
                    break
                starts += 1
                self._respawn()
            if self._answers():
                return True
            self._stopped.wait(0.05)
        return False

    def _output(self) -> str:
        """The end of the output of the process that was started last."""
        size = os.fstat(self._log.fileno()).st_size
        low = max(self._said, size - SHOWN)
        return os.pread(self._log.fileno(), size - low, low).decode(errors="replace")

    def _cause(self) -> str:
        """Why that process does not answer, and what to do."""
        if (reason := process.cause_told(self._output())) is None:
            code = self._process.poll()
            ended = process.cause(self._process) if code is not None else ""
            reason = f"it ended ({ended})" if ended else f"no answer in {START_SECONDS:.0f} s"
            reason += " and it printed nothing"
        elsewhere = "" if self._scheduling else "; --set history=none does without it"
        return f"{reason}{elsewhere}"

    def _respawn(self) -> None:
        with self._turn:
            if not self._stopped.is_set():
                self.restarts += 1
                process.release(self._process)
                self._process = self._spawned()

    def _watch(self) -> None:
        """In a thread: start the server again whenever it ends, until `stop`."""
        while not self._stopped.wait(WATCH_SECONDS):
            if self._process.poll() is None or self._stopped.is_set():
                continue
            why = process.cause(self._process)
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
        """End the server's whole process group. May be repeated."""
        with self._turn:
            first = not self._stopped.is_set()
            self._stopped.set()
        if first:
            process.stop(self._process)
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
    """Inside, flows and clients of this process use the API at `url`; `auth`: its password, else
    that of the environment or the active Prefect profile."""
    values: dict[Any, Any] = {PREFECT_API_URL: url}
    if auth is not None:
        values |= {PREFECT_API_AUTH_STRING: auth, PREFECT_CLIENT_CSRF_SUPPORT_ENABLED: True}
    with temporary_settings(values):
        yield url


def check_api(url: str) -> None:
    """Raises RunError with the remedy if the API at `url` cannot be reached or refuses this client.

    Prefect itself would fail with a traceback in the middle of the run.
    """
    try:
        with get_client(sync_client=True) as client:
            client.request("GET", "/admin/version").raise_for_status()
    except httpx.HTTPStatusError as error:
        raise RunError(_refused(url, error.response.status_code)) from None
    except (httpx.HTTPError, RuntimeError) as error:
        raise RunError(
            f"the Prefect API at {url} cannot be reached ({error}); start it, or unset "
            "PREFECT_API_URL so that the run starts its own server"
        ) from None


def _refused(url: str, status: int) -> str:
    if status not in REFUSALS:
        return (
            f"the Prefect API at {url} answers with status {status}; check that PREFECT_API_URL "
            "names a Prefect server"
        )
    return (
        f"the Prefect API at {url} refuses this client (status {status}); set "
        "PREFECT_API_AUTH_STRING (or PREFECT_API_KEY) to what the server asks for"
    )


class _Sentences(logging.Filter):
    """Drops tracebacks of errors that are a sentence, which Prefect prints again as the state that
    the run ends in. Those of bugs pass."""

    def filter(self, record: logging.LogRecord) -> bool:
        error = record.exc_info[1] if record.exc_info else None
        return not isinstance(error, MillError | KeyboardInterrupt)


class _NotTwice(_Sentences):
    """Also drops the records of UNSHOWN: Prefect would print uttermill's again for each flow and
    task run."""

    def filter(self, record: logging.LogRecord) -> bool:
        return not record.name.startswith(UNSHOWN) and super().filter(record)


_SENTENCES = _Sentences()


def in_sentences() -> None:
    """From now on, Prefect's console handlers print no traceback of an error that is a sentence:
    for the process of a flow run, which Prefect started."""
    for handler in _of_prefect():
        handler.addFilter(_SENTENCES)


def _of_prefect() -> list[logging.Handler]:
    from prefect.logging.handlers import PrefectConsoleHandler

    shown = [handler for handler in handlers() if isinstance(handler, PrefectConsoleHandler)]
    return [*shown, *logging.getLogger("prefect._internal").handlers]


@contextmanager
def quiet() -> Iterator[None]:
    """Inside, Prefect's console handlers print only warnings; its history keeps every record."""
    twice = _NotTwice()
    with ExitStack() as restore:
        # Else Prefect prints each batch of log records that a server which is gone did not take.
        restore.callback(setattr, logging, "raiseExceptions", logging.raiseExceptions)
        logging.raiseExceptions = False
        for handler in _of_prefect():
            restore.callback(handler.setLevel, handler.level)
            restore.callback(handler.removeFilter, twice)
            handler.setLevel(logging.WARNING)
            handler.addFilter(twice)
        yield
