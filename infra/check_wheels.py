"""Check that every dependency has a wheel at its pinned version, for each platform and Python.

    python infra/check_wheels.py [PLATFORM-OR-PYTHON ...]

Resolves with uv and with wheels only; nothing is installed. Exit 1 names what is missing.
"""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
#: uv's names. Linux: glibc of manylinux_2_28.
PLATFORMS = ("x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu", "aarch64-apple-darwin")
PYTHONS = ("3.11", "3.12", "3.13", "3.14")  # 3.11: from 3.11.0 on, Debian's 3.11.2 included
MACOS = "14.0"  # the oldest
EXTRAS = ("demo", "dnsmos", "s3")


def missing(platform: str, python: str) -> str | None:
    """None when all resolve to wheels, else what uv says."""
    uv = Path(sysconfig.get_path("scripts")) / "uv"
    extras = [word for extra in EXTRAS for word in ("--extra", extra)]
    done = subprocess.run(
        [
            uv, "pip", "compile", "-q", str(ROOT / "pyproject.toml"), *extras, "--group", "build",
            "-c", str(ROOT / "infra/constraints.txt"), "--only-binary", ":all:", "--no-header",
            "--no-annotate", "--python-platform", platform, "--python-version", python,
        ],
        env={**os.environ, "MACOSX_DEPLOYMENT_TARGET": MACOS}, cwd=ROOT,
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode:
        return done.stderr.strip()
    print(f"{platform}, Python {python}: {len(done.stdout.split())} distributions, all as wheels")
    return None


def main(chosen: list[str]) -> int:
    platforms = [name for name in PLATFORMS if name in chosen] or PLATFORMS
    pythons = [name for name in PYTHONS if name in chosen] or PYTHONS
    faults = 0
    for platform, python in product(platforms, pythons):
        if fault := missing(platform, python):
            faults += 1
            print(f"{platform}, Python {python}: {fault}")
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
