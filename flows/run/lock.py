"""One run at a time in an OUT. The kernel holds the lock, so a dead owner holds nothing.

On network file systems without `flock` between hosts the lock guards one host only. On an object
store it is an object, see `tasks.storage.lease`.
"""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from pathlib import Path
from typing import Any

from tasks import storage
from tasks.errors import ConfigError, Held
from tasks.storage import lease

NAME = ".lock"


@contextmanager
def hold(out: Path) -> Iterator[None]:
    """Holds OUT for this process; `Held` names the run that has it. Makes OUT if needed.

    The file stays: removing it would let two runs lock two files of one name.
    """
    if storage.is_remote(out):
        with lease.hold(out, _owner()):
            yield
        return
    path = out / NAME
    try:
        out.mkdir(parents=True, exist_ok=True)
        # Not inherited by workers or servers: a child that outlives a killed run holds nothing.
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    except OSError as error:
        raise ConfigError(f"cannot write to {out}: {error.strerror}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise Held(f"another run holds {out}: {_describe(path)}") from None
        except OSError as error:
            raise ConfigError(
                f"the file system of {out} has no locks ({error.strerror}); use another folder"
            ) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(_owner()).encode(), 0)
        yield
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _owner() -> dict[str, Any]:
    return {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        # The program's name only: arguments may hold credentials.
        "command": Path(sys.argv[0]).name or "python",
    }


def _describe(path: Path) -> str:
    try:
        owner = json.loads(path.read_text())
        return "{command}, process {pid} on {host}, since {since}".format(**owner)
    except (OSError, ValueError, KeyError):  # it is writing these lines just now
        return "it has only just begun"
