"""A Prefect API for the run: the one that is configured, else a local server of our own.

Prefect's own temporary server drops the last events when it stops, so most task runs would be
missing from the history (measured: 43 of 300). This one is stopped only after `settle`. It uses
the user's Prefect home, so that past local runs show in the UI of any later server.
"""

from __future__ import annotations

import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Self
from urllib.error import URLError
from urllib.request import urlopen
from uuid import UUID

from prefect.settings import PREFECT_API_URL, get_current_settings, temporary_settings

from flows.server import history
from tasks.errors import RunError

LOG = logging.getLogger("uttermill")

STARTS = 3  # a server that ends while it starts (database locked, say) is started again
START_SECONDS = 120.0  # a new database takes 11 s on two quiet cores
STOP_SECONDS = 15.0
LOOK_SECONDS = 0.2  # how soon the end of a server is seen

#: Of Prefect's settings only what a run's own server must have; the user's other ones stay.
#: The recorder writes one task run a transaction by default (22/s on SQLite), the cause of
#: late and lost history; in batches it keeps up. Its flush interval is truncated to whole
#: seconds by Prefect 3.8, so 1 is the least. Scheduling belongs to the user's own server.
SERVER_ENVIRONMENT = {
    "DO_NOT_TRACK": "1",
    "PREFECT_SERVER_ANALYTICS_ENABLED": "false",
    "PREFECT_SERVER_LOGGING_LEVEL": "WARNING",
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "false",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_READ_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_BATCH_SIZE": "50",
    "PREFECT_SERVER_SERVICES_TASK_RUN_RECORDER_FLUSH_INTERVAL": "1",
}


#: Of a server that lives as long as a schedule.
SCHEDULING = {
    "PREFECT_SERVER_SERVICES_SCHEDULER_ENABLED": "true",
    "PREFECT_SERVER_SERVICES_LATE_RUNS_ENABLED": "true",
}


def configured_url() -> str | None:
    """The API that the environment or the active Prefect profile names, if any."""
    return get_current_settings().api.url


class LocalServer:
    """A Prefect server in a process group of its own; use it as a context manager.

    `start()` returns at once, so that the start (4 s; 11 s with a new database) overlaps other
    work; `wait_ready()` returns when it answers. It is no child of the terminal's group: an
    interrupt reaches the run, which then still has a server to record it.

    A server that ends later (killed, out of memory) is started again at the same URL. Requests
    that come meanwhile wait in the socket, which stays open here, those that were cut off are
    sent again by Prefect's client, and so are its last events: the run only sees a slow answer.
    """

    def __init__(self, port: int = 0, scheduling: bool = False) -> None:
        # Bound here, listened to there: the URL is known at once and nobody can take the port.
        self._socket = _bound(port)
        self._scheduling = scheduling
        self.port: int = self._socket.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/api"
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in stop()
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()  # to start a process, or to stop for good
        self._stopped = threading.Event()
        self._keeper: threading.Thread | None = None
        self.restarts = 0  # processes after the first
        self.lost = ""  # why it is gone for good; empty while it is not

    @classmethod
    def start(cls, port: int = 0, scheduling: bool = False) -> Self:
        """`port` is taken if it is free, else another one; `scheduling`: schedules are kept."""
        server = cls(port, scheduling)
        server._spawn()
        return server

    def _spawn(self) -> None:
        environment = {
            **os.environ,
            **SERVER_ENVIRONMENT,
            **(SCHEDULING if self._scheduling else {}),
            "PREFECT_API_URL": self.url,
            "PREFECT_SERVER_UI_API_URL": self.url,  # else the UI looks at port 4200: a blank page
            "PREFECT_SERVER_API_HOST": "127.0.0.1",
            "PREFECT_SERVER_API_PORT": str(self.port),
        }
        child = Path(__file__).with_name("_server_child.py")
        if self._process is not None and self._process.stdin:  # a former start that failed
            self._process.stdin.close()
        self._process = subprocess.Popen(
            # -P: the folder of this file must not shadow other packages' modules.
            [sys.executable, "-P", str(child), str(self._socket.fileno())],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            pass_fds=[self._socket.fileno()],
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        if self._process is None:
            raise RuntimeError("the server was not started")
        return self._process.pid

    def wait_ready(self, timeout: float = START_SECONDS) -> str:
        """The API's URL, once it answers; RunError with the server's last words otherwise.

        From then on the server is kept: see the class.
        """
        if self._keeper is not None:
            raise RuntimeError("the server is kept already")
        if not self._starts(timeout):
            raise RunError(f"the local Prefect server did not start: {self._last_words()}")
        self._keeper = threading.Thread(target=self._keep, name="keep-server", daemon=True)
        self._keeper.start()
        return self.url

    def _starts(self, timeout: float) -> bool:
        """Whether it answers in time; a process that ends meanwhile is replaced, STARTS in all."""
        until = time.monotonic() + timeout
        starts = 1
        while time.monotonic() < until and not self._stopped.is_set():
            if self._ended():
                if starts == STARTS:
                    break
                starts += 1
                self._respawn()
            if self._answers():
                return True
            self._stopped.wait(0.05)
        return False

    def _ended(self) -> bool:
        process = self._process
        return process is None or process.poll() is not None

    def _respawn(self) -> None:
        with self._turn:
            if not self._stopped.is_set():
                self.restarts += 1
                self._spawn()

    def _keep(self) -> None:
        """In a thread: start the server again whenever it ends, until `stop`."""
        while not self._stopped.wait(LOOK_SECONDS):
            if not self._ended() or self._stopped.is_set():
                continue
            LOG.warning("the run's Prefect server ended (%s); it starts again", self._cause())
            self._respawn()
            if not self._starts(START_SECONDS) and not self._stopped.is_set():
                self.lost = self._last_words()
                LOG.error("the run's Prefect server does not start again: %s", self.lost)
                _forget_history()
                with self._turn:
                    self._socket.close()  # refused at once is better than an answer never given
                return

    def _cause(self) -> str:
        code = self._process.returncode if self._process is not None else 0
        return f"exit {code}" if code >= 0 else signal.Signals(-code).name

    def _answers(self) -> bool:
        try:
            with urlopen(f"{self.url}/health", timeout=1) as reply:
                return bool(reply.status == 200)
        except (URLError, OSError):
            return False

    def _last_words(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - 1000))
        text = self._log.read().decode(errors="replace").strip()
        return text.splitlines()[-1] if text else "it said nothing; is the disk full or very slow?"

    def settle(self, flow_run_id: UUID, expected: int | None = None, timeout: float = 60) -> bool:
        """Waits until the database holds the run's whole history; see `history.settle`."""
        return history.settle(flow_run_id, expected, timeout)

    def stop(self) -> None:
        """Asks the server to end, then makes it; its whole process group is gone after this."""
        self._stopped.set()
        with self._turn:
            process, self._process = self._process, None
        if process is not None:
            _signal_group(process.pid, signal.SIGTERM)
            try:
                process.wait(STOP_SECONDS)
            except subprocess.TimeoutExpired:
                _signal_group(process.pid, signal.SIGKILL)
                process.wait()
            if process.stdin:
                process.stdin.close()
        if self._keeper is not None:
            self._keeper.join()
        self._socket.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
        self.stop()


def _bound(port: int) -> socket.socket:
    """A listening socket of the loopback, at `port` or, where that is taken, at a free one."""
    try:
        return socket.create_server(("127.0.0.1", port), backlog=128, reuse_port=False)
    except OSError:
        return socket.create_server(("127.0.0.1", 0), backlog=128, reuse_port=False)


def _forget_history() -> None:
    """Let Prefect's threads drop what nobody takes any more: they would try for 8 s an event."""
    from prefect.events.worker import EventsWorker
    from prefect.logging.handlers import APILogWorker

    async def drop(service: object, items: object) -> None:
        pass

    for owner, name in ((EventsWorker, "_handle"), (APILogWorker, "_handle_batch")):
        setattr(owner, name, drop)


def _signal_group(pid: int, number: signal.Signals) -> None:
    with suppress(ProcessLookupError, PermissionError):  # macOS says the latter of a dead group
        os.killpg(pid, number)


@contextmanager
def using(url: str) -> Iterator[str]:
    """Within it, flows and clients of this process speak to the API at `url`."""
    with temporary_settings({PREFECT_API_URL: url}):
        yield url


@contextmanager
def local_server() -> Iterator[str]:
    """The API's URL: the configured one as it is, else of a server that lives in this context.

    Callers with other work to do at the start take `LocalServer.start()` and `using` instead.
    """
    url = configured_url()
    if url:
        yield url
        return
    with LocalServer.start() as server, using(server.wait_ready()):
        yield server.url
