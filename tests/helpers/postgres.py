"""A PostgreSQL server of its own on the loopback, by `initdb`: for tests and benchmarks.

Nothing of it is left, and no other database is touched.
"""

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import mkdtemp
from typing import NamedTuple

import psutil

from tests.faults.command import soon
from tests.helpers import by_hand

BINARIES = ("initdb", "pg_ctl", "postgres")
MISSING = [name for name in BINARIES if shutil.which(name) is None]
#: PostgreSQL refuses to run as root.
USERS = ("postgres", "nobody")


class Served(NamedTuple):
    url: str
    pid: int


class NoUser(Exception):
    """This process is root, and there is nobody else to be."""


def unprivileged() -> dict[str, int]:
    """Arguments of `subprocess.run` for a process that is not root's."""
    import pwd

    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    chosen = next((known[name] for name in USERS if name in known), None)
    if chosen is None:
        raise NoUser(f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}")
    return {"user": chosen.pw_uid, "group": chosen.pw_gid}


@contextmanager
def serving() -> Iterator[Served]:
    """A new, empty database on the loopback."""
    # Not in pytest's folder, which only root may enter.
    home = Path(mkdtemp(prefix="uttermill-pg-", dir="/tmp"))
    who = unprivileged()
    if who:
        os.chown(home, who["user"], who["group"])
    port = by_hand.free_port()
    data = home / "data"

    def do(*words: str) -> None:
        done = subprocess.run(
            words, cwd=home, env={"PATH": os.environ["PATH"], "LC_ALL": "C"}, timeout=60,
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            extra_groups=[] if who else None, **who,  # type: ignore[call-overload]
        )  # fmt: skip
        assert done.returncode == 0, done.stdout.decode()

    options = f"-p {port} -c listen_addresses=127.0.0.1 -c unix_socket_directories={home} -F"
    try:
        do("initdb", "-D", str(data), "-U", "prefect", "-A", "trust", "--no-sync")
        do("pg_ctl", "-D", str(data), "-l", str(home / "log"), "-o", options, "-w", "start")
        pid = int((data / "postmaster.pid").read_text().splitlines()[0])
        try:
            yield Served(f"postgresql+asyncpg://prefect:none@127.0.0.1:{port}/postgres", pid)
        finally:
            if runs(pid):
                do("pg_ctl", "-D", str(data), "-m", "fast", "-w", "stop")
            assert soon(lambda: not runs(pid))
    finally:
        shutil.rmtree(home, ignore_errors=True)


def runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)  # containers: no init
    except psutil.NoSuchProcess:
        return False
