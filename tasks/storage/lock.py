"""One run at a time in an OUT: a lock of the kernel on a folder, a lease on an object store
(`lease.py`). On a network file system without `flock` between hosts, the lock excludes only runs on
the same host."""

from __future__ import annotations

import fcntl
import json
import os
import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from datetime import datetime
from pathlib import Path

from .. import storage
from ..base.errors import ConfigError, OutLocked, RunError
from . import lease, owners, regular

NAME = ".lock"

#: Descriptors of this process's locks, by OUT as text.
_mine: dict[str, int] = {}


def hold(out: Path) -> AbstractContextManager[None]:
    """Hold OUT for this process, creating it if needed. `OutLocked` names the run that holds it."""
    program = Path(sys.argv[0]).name or "python"
    # Other arguments may hold credentials.
    command = [word for word in sys.argv[1:2] if program == "uttermill" and word.isalpha()]
    owner: lease.Owner = {
        "pid": os.getpid(),
        "host": socket.gethostname(),
        "since": datetime.now().astimezone().isoformat(timespec="seconds"),
        "command": " ".join([program, *command]),
    }
    return (lease.hold if storage.store_of(out).remote else _locked)(out, owner)


def check(out: Path) -> None:
    """RunError when this process held OUT and has lost it, or OUT is not the folder that it was."""
    if storage.store_of(out).remote:
        lease.check(out)
    if (descriptor := _mine.get(str(out))) is None:
        return
    with suppress(OSError):
        if os.path.samestat(os.fstat(descriptor), os.lstat(out / NAME)):
            return
    raise RunError(
        f"{out} was moved, removed or replaced, or its {NAME} was, while this run went on, so it "
        "publishes nothing; run again to continue, with the folder's new name if it has one"
    )


def refuse_held(out: Path) -> None:
    """`OutLocked` if a run holds OUT now; needs no right to write."""
    if storage.store_of(out).remote:
        lease.refuse_held(out)
        return
    try:
        descriptor = regular.written(out / NAME, os.O_RDONLY)
    except FileNotFoundError:
        return
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        raise _held(out) from None
    except OSError:  # this file system has no locks, so no run holds one
        pass
    finally:
        os.close(descriptor)


@contextmanager
def _locked(out: Path, owner: lease.Owner) -> Iterator[None]:
    """The lock file stays: removing it would let two runs lock two files of one name."""
    path = out / NAME
    try:
        out.mkdir(parents=True, exist_ok=True)
        # Not inherited by workers or servers: a child that outlives a killed run must not hold it.
        descriptor = regular.written(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise ConfigError(f"cannot write to {out}: {owners.told(error, path)}") from error
    try:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            raise _held(out) from None
        except OSError as error:
            raise owners.no_locks(out, error) from error
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, json.dumps(owner).encode(), 0)
        _mine[str(out)] = descriptor
        try:
            yield
        finally:
            del _mine[str(out)]
        os.ftruncate(descriptor, 0)
    finally:
        os.close(descriptor)


def _held(out: Path) -> OutLocked:
    try:
        owner = lease.describe(json.loads(storage.read(out / NAME)))
    except (OSError, ValueError):  # that run is just writing them
        owner = "a run that has just started"
    return OutLocked(f"another run holds {out}: {owner}")
