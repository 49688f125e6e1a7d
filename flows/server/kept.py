"""A local Prefect server that is kept for the next run, which takes it over instead of starting
one.

Starting it is most of what Prefect's history costs a short run. A run that ended well leaves its
server asleep (`_server_child.py`: it takes no CPU), for MINUTES. The next run of the same user,
with the same settings of Prefect, takes it over: it receives the listening socket through a Unix
socket in a folder of Prefect's home that only this user can enter, so that it can restart the
server at the same address, as with its own. One run has it at a time; any other, or one for which
none fits, starts a server that ends with the run.
"""

from __future__ import annotations

import hashlib
import json
import os
import socket
import stat
import sys
from dataclasses import dataclass
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import NamedTuple
from urllib.request import urlopen

from prefect import __version__
from prefect.settings import get_current_settings

from ...tasks.base.errors import ConfigError
from ._sleep import DATABASE, FOLDER, SOCKET

VARIABLE = "UTTERMILL_KEEP_SERVER"  # minutes; 0: a server ends with its run
MINUTES = 10.0  # at a terminal, where a person may run again; elsewhere 0
MOST_MINUTES = 24 * 60
SECONDS = 5.0  # to be handed over, and for the first answer
LONGEST = 100  # bytes of a Unix socket's path; Linux allows 107, macOS 103


def minutes() -> float:
    """Minutes that a server stays after a run. ConfigError if the variable is not a number."""
    if (text := os.environ.get(VARIABLE)) is None:
        return MINUTES if sys.stderr.isatty() else 0.0
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 <= number <= MOST_MINUTES:
        raise ConfigError(f"{VARIABLE}={text!r}: give minutes from 0 (none is kept) to 1440")
    return number


def place() -> Path | None:
    """The folder, created if missing; None if no server can be kept: the folder is not this user's
    alone, its path is too long for a socket, or Prefect's database is not in its home."""
    settings = get_current_settings()
    folder = Path(settings.home) / FOLDER
    url = settings.server.database.connection_url
    usual = url is None or url.get_secret_value().endswith(f":///{_database()}")
    if not usual or not folder.is_absolute() or len(os.fsencode(folder / SOCKET)) > LONGEST:
        return None
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        about = folder.lstat()
    except OSError:
        return None
    ours = stat.S_ISDIR(about.st_mode) and about.st_uid == os.getuid()
    return folder if ours and not about.st_mode & 0o077 else None


def _database() -> Path:
    """Where Prefect's database is, unless its settings name another."""
    return Path(get_current_settings().home) / DATABASE


def identity() -> str:
    """What a server must share with a run that takes it over: code, settings, host, database."""
    settings = get_current_settings()
    database = _database().stat()
    code = sorted(Path(__file__).parent.glob("*.py"))
    facts = [
        [__version__, sys.executable, sys.version, socket.gethostname()],
        settings.to_environment_variables(exclude_unset=True, include_secrets=True),
        [[str(path), path.stat().st_mtime_ns] for path in code],
        [database.st_dev, database.st_ino],
    ]
    return hashlib.sha256(json.dumps(facts, sort_keys=True, default=str).encode()).hexdigest()


@dataclass
class Adopted:
    """The process of a server that another run started, with the interface of
    `subprocess.Popen`."""

    pid: int
    lease: socket.socket  # the server ends, or sleeps again, when it is closed
    returncode: int | None = None

    def poll(self) -> int | None:
        """None while it lives; its real exit code is known to its parent only."""
        if self.returncode is None:
            try:
                ended = self.lease.recv(1, socket.MSG_DONTWAIT) == b""
            except BlockingIOError:
                ended = False
            except OSError:
                ended = True
            self.returncode = 1 if ended else None
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        """Wait until it has ended; TimeoutExpired after `timeout` s."""
        self.lease.settimeout(timeout)
        try:
            while self.lease.recv(1):
                pass
        except TimeoutError:
            raise TimeoutExpired("a kept server", timeout or 0.0) from None
        except OSError:
            pass
        finally:
            self.lease.settimeout(None)
        self.returncode = 1
        return self.returncode


class Taken(NamedTuple):
    """A server that was taken over: its listening socket, its password and its process."""

    listener: socket.socket
    auth: str
    process: Adopted


def adopted(folder: Path) -> Taken | None:
    """The server that was kept in `folder`; None if there is none that fits and answers. One that
    does not fit ends itself."""
    lease = socket.socket(socket.AF_UNIX)
    try:
        greeting = identity().encode() + b"\n"  # before connecting: the server waits for it
        lease.settimeout(SECONDS)
        lease.connect(str(folder / SOCKET))
        lease.sendall(greeting)
        data, fds, _, _ = socket.recv_fds(lease, 1 << 12, 1)
        if not fds:
            raise OSError("it does not fit")
        listener = socket.socket(fileno=fds[0])
        facts = json.loads(data)
        try:
            port = listener.getsockname()[1]
            with urlopen(f"http://127.0.0.1:{port}/api/health", timeout=SECONDS):
                pass
        except OSError:
            listener.close()
            raise
    except (OSError, ValueError):
        lease.close()
        return None
    lease.settimeout(None)  # else each check of it would wait
    return Taken(listener, facts["auth"], Adopted(facts["pid"], lease))


def left(process: Popen[bytes] | Adopted, seconds: float) -> bool:
    """Leave the server to a run that starts within `seconds`; False if impossible."""
    try:
        words = f"keep {seconds:.0f} {identity()}\n".encode()
        if isinstance(process, Adopted):
            process.lease.sendall(words)
            process.lease.close()
        elif process.stdin is not None:
            process.stdin.write(words)
            process.stdin.close()
    except OSError:
        return False
    process.returncode = 0  # nobody waits for it
    return True
