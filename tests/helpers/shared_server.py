"""One Prefect server for all processes that share the tests.

The process that hands the tests out starts it, before it starts the others; they find it in their
environment. Tests that one process runs alone start it when the first of them wants it.
"""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.error import URLError
from urllib.request import urlopen

import pytest

from tests.helpers import prefect_database

VARIABLE = "UTTERMILL_TEST_SERVER"
START_SECONDS = 600.0  # a new database takes 11 s on two idle cores


@dataclass(frozen=True)
class Server:
    """Where it is, which process it is, and where its database lies."""

    url: str
    pid: int
    home: str


def begin() -> Callable[[], None]:
    """Start it, which goes on while the others collect their tests; what ends it."""
    from uttermill.flows.server.server import LocalServer

    server = LocalServer()
    told = Server(server.url, server.pid, os.environ["PREFECT_HOME"])
    os.environ[VARIABLE] = json.dumps(asdict(told))
    return server.stop


@contextmanager
def serving(empty: Path, home: Path) -> Iterator[Server]:
    """The server, once it answers. Before it records anything its database is copied to `empty`,
    and from there to this process's `home`, where servers of single tests begin with it."""
    if told := os.environ.get(VARIABLE):
        server = Server(**json.loads(told))
        with prefect_database.turn(empty):
            if not empty.exists():
                _wait(server)
                prefect_database.save(Path(server.home), empty)
        if not (home / prefect_database.NAME).exists():
            prefect_database.give(empty, home)
        yield server
        return

    from uttermill.flows.server import server as ours

    with ours.LocalServer() as own:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(ours, "START_SECONDS", START_SECONDS)
            own.wait_ready()
        prefect_database.save(home, empty)
        yield Server(own.url, own.pid, str(home))


def _wait(server: Server) -> None:
    until = time.monotonic() + START_SECONDS
    while True:
        try:
            with closing(urlopen(f"{server.url}/health", timeout=10)):
                return
        except (URLError, OSError) as error:
            if time.monotonic() > until:
                raise RuntimeError("the tests' Prefect server does not start") from error
        time.sleep(0.2)
