"""Check that every needed dependency has a wheel for an architecture, at the pinned version.

    python infra/check_wheels.py [aarch64|x86_64] [EXTRA ...]

Asks pip for a dry run with wheels only; nothing is installed. Exit 1 names what is missing.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import tomllib
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PLATFORMS = ("manylinux_2_28", "manylinux_2_27", "manylinux_2_17", "manylinux2014")
PYTHONS = ("3.11", "3.12", "3.13")


def needed(extras: list[str]) -> list[str]:
    """Requirements of the project and of some of its extras."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    found = list(project["dependencies"])
    for extra in extras:
        found += [r for r in project["optional-dependencies"][extra] if "uttermill" not in r]
    return found


def missing(machine: str, python: str, extras: list[str]) -> str | None:
    """None when all resolve to wheels, else what pip says."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        platforms = [w for p in PLATFORMS for w in ("--platform", f"{p}_{machine}")]
        done = subprocess.run(
            [
                sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "-q",
                "--only-binary=:all:", "--python-version", python, *platforms,
                "--target", str(Path(folder) / "site"), "--report", str(report),
                "-c", str(ROOT / "infra" / "constraints.txt"), *needed(extras),
            ],
            capture_output=True, text=True, check=False,
        )  # fmt: skip
        if done.returncode:
            lines = [line for line in done.stderr.splitlines() if line.startswith("ERROR")]
            return "\n".join(lines) or done.stderr[-500:]
        installs = json.loads(report.read_text())["install"]
        print(f"{machine}, Python {python}: {len(installs)} distributions, all as wheels")
        return None


def main() -> int:
    machine = sys.argv[1] if len(sys.argv) > 1 else "aarch64"
    faults = 0
    for python in PYTHONS:
        fault = missing(machine, python, sys.argv[2:] or ["bundled-whisper", "demo"])
        if fault:
            faults += 1
            print(f"{machine}, Python {python}:\n{fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
