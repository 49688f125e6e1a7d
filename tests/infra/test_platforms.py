"""Where uttermill runs: wheels for each platform and Python, and what it says on Windows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import authorities

ROOT = Path(__file__).parents[2]
CHECK = ROOT / "infra/check_wheels.py"


@pytest.mark.nightly
def test_every_platform_has_wheels() -> None:
    command = [sys.executable, str(CHECK)]
    with authorities.trusted_as_ever():
        done = subprocess.run(command, capture_output=True, text=True, timeout=1100, check=False)
    assert done.returncode == 0, done.stdout
    assert done.stdout.count("all as wheels") == 12


WINDOWS = "import sys; sys.platform = 'win32'; {}"


NO_FCNTL = "import sys; sys.modules['fcntl'] = None; {}"


@pytest.mark.parametrize("without", [WINDOWS, NO_FCNTL])
@pytest.mark.parametrize("module", ["tasks", "uttermill.tasks.storage.lock", "uttermill.tasks.api"])
def test_windows_is_told_of_wsl_at_import(module: str, without: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", without.format(f"import {module}")],
        capture_output=True, text=True, cwd=ROOT, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith("ImportError: uttermill runs on Linux and macOS")
    assert "use WSL" in done.stderr


def test_the_command_on_windows_is_one_sentence() -> None:
    code = WINDOWS.format("from uttermill.flows.cli import main; sys.exit(main(['--version']))")
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT, check=False
    )
    assert (done.returncode, done.stdout) == (2, "")
    (line,) = done.stderr.splitlines()
    assert line.startswith("uttermill: uttermill runs on Linux and macOS; on Windows, use WSL")
