"""Shared fixtures. No test sees the user's Prefect: its home, profile, API or database."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from tests import fuzz  # noqa: F401 - the profile that `--hypothesis-profile` may name

if TYPE_CHECKING:
    from flows.server.server import LocalServer
    from tests.faults.kills import Tally
    from tests.s3_server import S3

#: What `tests/faults/test_kills_seeded.py` hit, for the summary.
KILLS: pytest.StashKey[Tally] = pytest.StashKey()

# Before anything imports Prefect, which reads its settings then; child processes inherit it.
for _name in [name for name in os.environ if name.startswith("PREFECT_")]:
    del os.environ[_name]
_HOME = tempfile.mkdtemp(prefix="uttermill-test-prefect-")
os.environ["PREFECT_HOME"] = _HOME
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["DO_NOT_TRACK"] = "1"
# Of the server: how long a run that found no free slot waits before it asks again; 30 s else.
os.environ["PREFECT_SERVER_DEPLOYMENTS_CONCURRENCY_SLOT_WAIT_SECONDS"] = "2"


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("uttermill")
    group.addoption(
        "--kills", type=int, default=8, metavar="N",
        help="how many kills -9 tests/faults/test_kills_seeded.py does (default 8; 60 is all)",
    )  # fmt: skip
    group.addoption(
        "--kills-seed", type=int, default=6640, metavar="N", help="what its plan is drawn from"
    )


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    tally = terminalreporter.config.stash.get(KILLS, None)
    if tally is not None and tally.kills:
        terminalreporter.section("kills by victim and stage")
        for line in tally.lines():
            terminalreporter.line(line)


def pytest_unconfigure() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[LocalServer]:
    """A real Prefect server on a new database; reach it within `flows.server.using(it.url)`."""
    from flows.server.server import LocalServer

    with LocalServer.start() as server:
        server.wait_ready()
        yield server


@pytest.fixture
def prefect_api(prefect_server: LocalServer) -> Iterator[LocalServer]:
    """The same server; flows and clients of the test speak to it."""
    from flows.server.server import using

    with using(prefect_server.url):
        yield prefect_server


@pytest.fixture(scope="session")
def s3() -> Iterator[S3]:
    """A real S3 server with an empty bucket."""
    from tests.s3_server import serving

    with serving() as server:
        yield server
