"""A site for each test: recordings, a folder for files that kill, one Prefect server for all."""

from __future__ import annotations

from pathlib import Path

import pytest

from flows.server.server import LocalServer
from tests.faults.command import Site


@pytest.fixture
def site(tmp_path: Path, prefect_server: LocalServer) -> Site:
    return Site(tmp_path, prefect_server.url)
