"""Removes the temporary files that a dead run left in an OUT."""

from __future__ import annotations

from pathlib import Path

from .. import storage
from ..shard_store.index import ROOTS, Index
from ..storage import versions


def sweep(out: Path, index: Index | None = None) -> int:
    """Remove them; returns how many. Only while holding OUT's lock.

    `index`: has just listed the checkpoints. Of the versions only the newest is looked through: a
    late worker can only have written into an older one before its publication, and the next run
    swept that.
    """
    store = storage.of(out)
    if store.remote:  # nothing has a temporary name there
        return 0
    paths = [out / name for name in (index or Index(out)).temporaries]
    home = out / "manifests"
    listed = {Path(root).name for root in ROOTS}
    others = [home / name for name in store.folders(home) if name not in listed]
    newest = versions.newest(out)
    for folder in (*others, *([newest] if newest else [])):
        paths += store.temporaries(folder)
    for folder in (home, versions.home(out)):
        paths += [path for path in store.names(folder, ".tmp") if path.name.startswith(".")]
    for path in paths:
        store.remove(path)
    return len(paths)
