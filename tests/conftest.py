"""Shared fixtures. No test sees the user's Prefect: its home, profile, API or database."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from flows.server import LocalServer

# Before anything imports Prefect, which reads its settings then; child processes inherit it.
for _name in [name for name in os.environ if name.startswith("PREFECT_")]:
    del os.environ[_name]
_HOME = tempfile.mkdtemp(prefix="uttermill-test-prefect-")
os.environ["PREFECT_HOME"] = _HOME
os.environ["PREFECT_SERVER_ANALYTICS_ENABLED"] = "false"
os.environ["DO_NOT_TRACK"] = "1"


def pytest_unconfigure() -> None:
    shutil.rmtree(_HOME, ignore_errors=True)


@pytest.fixture(scope="session")
def prefect_server() -> Iterator[LocalServer]:
    """A real Prefect server on a new database; reach it within `flows.server.using(it.url)`."""
    from flows.server import LocalServer

    with LocalServer.start() as server:
        server.wait_ready()
        yield server


@pytest.fixture
def prefect_api(prefect_server: LocalServer) -> Iterator[LocalServer]:
    """The same server; flows and clients of the test speak to it."""
    from flows.server import using

    with using(prefect_server.url):
        yield prefect_server
