"""Where uttermill runs: wheels for each platform and Python, and what it says on Windows."""

import re
import subprocess
import sys
import sysconfig
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


@pytest.mark.nightly
def test_an_install_without_constraints_runs_and_schedules(tmp_path: Path) -> None:
    """With the newest version of everything, as pip takes it where nobody names one. If it fails,
    its words are the versions that `constraints.txt` does not know."""
    uv, python = f"{sysconfig.get_path('scripts')}/uv", f"{tmp_path}/venv/bin/python"
    runner = ("pytest", "pytest-timeout", "pytest-xdist", "hypothesis")
    with authorities.trusted_as_ever():
        for words in (
            ("venv", "-q", "-p", sys.executable, f"{tmp_path}/venv"),
            ("pip", "install", "-q", "-p", python, "-e", f"{ROOT}[demo]", *runner),
        ):
            subprocess.run([uv, *words], check=True, timeout=1100)
    tests = [python, "-m", "pytest", "-q", "-n", "0", "-p", "no:cacheprovider", "-m", "server"]
    done = subprocess.run(
        [*tests, "tests/server/test_serve.py", "tests/server/test_server.py"],
        capture_output=True, text=True, cwd=ROOT, timeout=1100, check=False,
    )  # fmt: skip
    frozen = subprocess.run([uv, "pip", "freeze", "-p", python], capture_output=True, text=True)
    known = (ROOT / "infra/constraints.txt").read_text().lower().replace("_", "-").split()
    newer = {one for one in re.findall(r"\S+==\S+", frozen.stdout.lower()) if one not in known}
    assert done.returncode == 0, f"{sorted(newer)}\n{done.stdout[-4000:]}"


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
