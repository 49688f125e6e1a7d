"""Peak memory of this process alone. `ru_maxrss` is not a measure of it: Linux hands the peak of
the process that started this one down through `exec`, and pytest with a model loaded is large."""

from __future__ import annotations

from pathlib import Path


def peak() -> int:
    """Most resident memory since this process began, bytes."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(1024 * int(line.split()[1]) for line in lines if line.startswith("VmHWM:"))
