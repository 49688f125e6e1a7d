"""The operating-system process of a local Prefect server, and why it does not start: from what it
printed, in words with a remedy."""

from __future__ import annotations

import os
import re
import signal
import socket
import subprocess
from contextlib import suppress
from pathlib import Path
from typing import IO

from prefect import __version__
from prefect.settings import get_current_settings

from ...tasks.base.environment import of_child, python
from ..machine import NO_THREAD, RAISE

STOP_SECONDS = 15.0

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


def started(
    listener: socket.socket, url: str, auth: str, scheduling: bool, log: IO[bytes]
) -> subprocess.Popen[bytes]:
    """A server that listens on a socket of this process, in a process group of its own. `auth` is
    its password, which no command line shows.

    Being in its own group it gets no Ctrl-C from the terminal: an interrupted run still has a
    server to record the interrupt.
    """
    on = "true" if scheduling else "false"
    environment = {
        **of_child(),
        **ENVIRONMENT,
        **{f"PREFECT_SERVER_SERVICES_{name}_ENABLED": on for name in SCHEDULING},
        "PREFECT_API_URL": url,
        "PREFECT_SERVER_UI_API_URL": "/api",  # its own origin, by whatever name or port
        "PREFECT_SERVER_API_CORS_ALLOWED_ORIGINS": url.removesuffix("/api"),
        "PREFECT_SERVER_API_CSRF_PROTECTION_ENABLED": "true",
        "PREFECT_SERVER_API_AUTH_STRING": auth,
        "PREFECT_API_AUTH_STRING": auth,
        "PREFECT_SERVER_API_HOST": "127.0.0.1",
        "PREFECT_SERVER_API_PORT": str(listener.getsockname()[1]),
    }
    if home := os.environ.get("PREFECT_HOME"):  # which may be relative
        environment["PREFECT_HOME"] = os.path.abspath(os.path.expanduser(home))
    child = f"{__package__}._server_child"
    return subprocess.Popen(
        python("-m", child, str(listener.fileno())),
        env=environment,
        cwd="/",  # Alembic puts the current folder first on the import path
        stdin=subprocess.PIPE,
        stdout=log,
        stderr=subprocess.STDOUT,
        pass_fds=[listener.fileno()],
        start_new_session=True,
    )


def cause(process: subprocess.Popen[bytes]) -> str:
    """How it ended: `exit 1` or `SIGKILL`."""
    code = process.returncode
    return f"exit {code}" if code >= 0 else signal.Signals(-code).name


def release(process: subprocess.Popen[bytes]) -> None:
    """Close the pipe to a process that has ended."""
    if process.stdin:
        process.stdin.close()


def stop(process: subprocess.Popen[bytes]) -> None:
    """Terminate it, then kill it; afterwards its whole process group is gone."""
    for number, seconds in ((signal.SIGTERM, STOP_SECONDS), (signal.SIGKILL, None)):
        with suppress(ProcessLookupError, PermissionError):  # macOS: the latter for a dead group
            os.killpg(process.pid, number)
        with suppress(subprocess.TimeoutExpired):
            process.wait(seconds)
            break
    release(process)


def listening(port: int) -> socket.socket:
    """A listening socket on the loopback: at `port`, or at a free port if that is taken."""
    try:
        return socket.create_server(("127.0.0.1", port), backlog=128, reuse_port=False)
    except OSError:
        return socket.create_server(("127.0.0.1", 0), backlog=128, reuse_port=False)


def is_lasting(output: str) -> bool:
    """Whether another start would fail, too."""
    return _known_cause(output) is not None


def cause_told(output: str) -> str | None:
    """The cause and its remedy; else the last error in the output, else its last line; None without
    output."""
    if (cause := _known_cause(output)) is not None:
        return cause
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    errors = _RAISED.findall(output)
    return errors[-1].strip() if errors else lines[-1] if lines else None


def _known_cause(output: str) -> str | None:
    settings = get_current_settings()
    url = settings.server.database.connection_url
    kind, _, file = url.get_secret_value().partition(":///") if url else ("", "", "")
    if not kind.startswith("sqlite"):  # a server's own words about its disk
        return None
    names = {"database": f"Prefect's database {file}", "home": Path(settings.home)}
    raised = "\n".join(_RAISED.findall(output))
    for pattern, words in CAUSES:
        if match := re.search(f"^.*(?:{pattern}).*$", raised, re.MULTILINE):
            line = match[0].rpartition("Error: ")[2].rpartition("] ")[2]
            return words.format(**names, version=__version__, line=line)
    return None
