"""PostgreSQL as Prefect's database: what the README says, with a real server of it.

Needs its binaries on the PATH; nothing of it is left, and no other database is touched.
"""

from __future__ import annotations

import asyncio
import os
import shutil
import socket
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp

import psutil
import pytest

from tests import corpus
from tests.faults.command import Site

BINARIES = ("initdb", "pg_ctl", "postgres")
MISSING = [name for name in BINARIES if shutil.which(name) is None]
#: PostgreSQL refuses to run as root.
USERS = ("postgres", "nobody")
pytestmark = [
    pytest.mark.server,
    pytest.mark.cluster,
    pytest.mark.skipif(bool(MISSING), reason=f"not on the PATH: {', '.join(MISSING)}"),
]


def unprivileged() -> dict[str, int]:
    """Arguments of `subprocess.run` for a process that is not root's."""
    import pwd

    if os.geteuid() != 0:
        return {}
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    chosen = next((known[name] for name in USERS if name in known), None)
    if chosen is None:
        pytest.skip(f"PostgreSQL does not run as root, and there is no user {' or '.join(USERS)}")
    return {"user": chosen.pw_uid, "group": chosen.pw_gid}


@pytest.fixture
def postgres() -> Iterator[str]:
    """URL of a new, empty database on the loopback."""
    # Not in pytest's folder, which only root may enter.
    home = Path(mkdtemp(prefix="uttermill-pg-", dir="/tmp"))
    who = unprivileged()
    if who:
        os.chown(home, who["user"], who["group"])
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
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
            yield f"postgresql+asyncpg://prefect:none@127.0.0.1:{port}/postgres"
        finally:
            do("pg_ctl", "-D", str(data), "-m", "fast", "-w", "stop")
            assert not runs(pid)
    finally:
        shutil.rmtree(home, ignore_errors=True)


def runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)  # containers: no init
    except psutil.NoSuchProcess:
        return False


def rows(url: str, query: str) -> list[tuple[str, ...]]:
    import asyncpg  # type: ignore[import-untyped]  # Prefect's

    async def ask() -> list[tuple[str, ...]]:
        connection = await asyncpg.connect(url.replace("+asyncpg", ""))
        try:
            return [tuple(row) for row in await connection.fetch(query)]
        finally:
            await connection.close()

    return asyncio.run(ask())


def test_a_run_leaves_its_history_there(postgres: str, tmp_path: Path) -> None:
    """As the README says it: one variable. Two runs: the second one has nothing to do."""
    environment = {
        "PREFECT_SERVER_DATABASE_CONNECTION_URL": postgres, "PREFECT_HOME": str(tmp_path / "home")
    }  # fmt: skip
    site = Site(tmp_path, "", environment)
    corpus.make(site.source, 3)
    chosen = site.settings("out", cluster={"workers": 1})
    site.done(chosen)
    again = site.done(chosen)
    assert again.result["new"] is False
    assert not (tmp_path / "home" / "prefect.db").exists()
    assert Counter(rows(postgres, "select state_name from flow_run")) == {("Completed",): 2}
    states = Counter(rows(postgres, "select state_name from task_run"))
    count = 2 + 3 * int(again.result["stages"]["filter"]["shards_reused"])
    assert states == {("Completed",): count, ("Reused",): count}
    ((text,),) = rows(
        postgres,
        "select data #>> '{}' from artifact where key is not null order by created limit 1",
    )
    assert "v0001 is published" in text
