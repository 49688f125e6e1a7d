"""Helpers that mount a small disk: they run in a mount namespace of their own."""

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

NO_DISK = 77  # exit code


def told(module: str, *args: str) -> Any:
    """What a module of the tests prints last, as JSON; the test is skipped where nothing can be
    mounted."""
    if not shutil.which("unshare") or subprocess.run(["unshare", "-rm", "true"]).returncode:
        pytest.skip("no mount namespaces here")
    command = ["unshare", "-rm", sys.executable, "-m", module, *args]
    root = Path(__file__).parents[2]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    if done.returncode == NO_DISK:
        pytest.skip(f"no tmpfs here: {done.stderr}")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def mount(disk: Path) -> None:
    """A disk of one page of memory, until the namespace ends."""
    asked = ["mount", "-t", "tmpfs", "-o", "size=4k", "tmpfs", str(disk)]
    if subprocess.run(asked).returncode:
        sys.exit(NO_DISK)


def resize(disk: Path, pages: int) -> None:
    options = f"remount,size={4 * pages}k"
    subprocess.run(["mount", "-o", options, str(disk)], check=True)
