"""Room for the handover cache on a worker's local disk, shared by all workers of a machine."""

from __future__ import annotations

import time
from contextlib import suppress
from pathlib import Path

import psutil

PENDING = "-pending"  # suffix of entries of a recording that is still being decoded


class DiskBudget:
    """How full the cache is: measured once a second, estimated in between."""

    def __init__(self) -> None:
        self.looked = float("-inf")
        self.used = 0
        self.folder: Path | None = None

    def take(self, folder: Path, size: int, limit: int) -> bool:
        """Whether a folder has room for so many bytes; creates the folder."""
        if folder != self.folder or time.monotonic() - self.looked > 1.0:
            folder.mkdir(parents=True, exist_ok=True)
            self.folder, self.looked, self.used = folder, time.monotonic(), _used(folder)
        if self.used + size > limit:
            return False
        self.used += size
        return True


def _used(folder: Path) -> int:
    """Bytes of all entries, those that are still pending too; a dead worker's are removed."""
    total = 0
    for path in folder.iterdir():
        with suppress(FileNotFoundError):  # another worker took it just now
            owner = path.name.removesuffix(PENDING).rpartition(".")[2]
            if path.name.endswith(PENDING) and not psutil.pid_exists(int(owner)):
                path.unlink()
                continue
            total += path.stat().st_size
    return total
