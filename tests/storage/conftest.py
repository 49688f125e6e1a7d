"""An OUT for all tests of one that was damaged or tampered with, and copies of it."""

import shutil
from pathlib import Path

import pytest

from tests.helpers import tampered


@pytest.fixture(scope="session")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder around it."""
    return tampered.make(tmp_path_factory.mktemp("whole")).parent


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "copy", symlinks=True)
    return tmp_path / "copy/out"
