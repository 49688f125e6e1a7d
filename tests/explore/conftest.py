"""One OUT for all tests of the explorer in a process, and clients of it."""

import shutil
from pathlib import Path

import pytest
from starlette.testclient import TestClient

from tests.explore.test_explore import client_of, make


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("explore"))


@pytest.fixture(scope="session")
def reader(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    """For questions, which change nothing."""
    return client_of(whole, tmp_path_factory.mktemp("reader"))


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    """A copy that a test may change."""
    shutil.copytree(whole, tmp_path / "out", symlinks=True)
    return tmp_path / "out"


@pytest.fixture
def client(out: Path, tmp_path: Path) -> TestClient:
    return client_of(out, tmp_path / "home")
