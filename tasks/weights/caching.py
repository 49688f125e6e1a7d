"""Publishes folders of the user's cache of models whole, by one rename: what exists is complete.

Of two processes that race, the second discards its copy.
"""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.storage.atomic import fsync

PREFIX = ".making-"
STALE_SECONDS = 3600.0  # pip gives up sooner; an older folder is left from a killed process


@contextmanager
def published(target: Path, complete: Callable[[Path], bool]) -> Iterator[Path]:
    """A folder to fill, which then becomes `target`, in place of one that is not `complete`. Its
    parent is for what is needed meanwhile."""
    models = target.parent
    models.mkdir(parents=True, exist_ok=True)
    _sweep(models)
    with tempfile.TemporaryDirectory(prefix=PREFIX, dir=models) as scratch:
        made = Path(scratch) / target.name
        made.mkdir()
        yield made
        fsync(made)
        try:
            made.rename(target)
        except OSError:
            if complete(target):  # another process was first
                return
            if not target.exists():
                raise
            target.rename(made.with_name("damaged"))
            made.rename(target)
    fsync(models)


def _sweep(models: Path) -> None:
    """Remove what killed processes left behind."""
    for left in models.glob(f"{PREFIX}*"):
        try:
            old = time.time() - left.stat().st_mtime > STALE_SECONDS
        except OSError:
            continue
        if old:
            shutil.rmtree(left, ignore_errors=True)
