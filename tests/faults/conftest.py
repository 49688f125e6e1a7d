"""Sites for each test: recordings, and a folder for files that kill."""

from pathlib import Path

import pytest

from tests.faults.command import Site
from tests.helpers.shared_server import Server


@pytest.fixture
def site(tmp_path: Path, prefect_server: Server) -> Site:
    """Its runs are recorded in the Prefect server of all tests."""
    return Site(tmp_path, prefect_server.url)


@pytest.fixture
def bare(tmp_path: Path) -> Site:
    """Its runs do without Prefect, for tests of what it has no part in."""
    return Site(tmp_path, "", history="none")
