"""Publishes folders of the user's cache of models whole, by one rename: what exists is complete.

Of two processes that race, the second discards its copy.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from tasks.storage import temporary
from tasks.storage.atomic import fsync

PREFIX = ".making-"


@contextmanager
def published(target: Path, complete: Callable[[Path], bool]) -> Iterator[Path]:
    """A folder to fill, which then becomes `target`, in place of one that is not `complete`. Its
    parent is for what is needed meanwhile."""
    models = target.parent
    models.mkdir(parents=True, exist_ok=True)
    with temporary.scratch(PREFIX, models) as scratch:
        made = scratch / target.name
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
