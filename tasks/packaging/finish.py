"""Writes the formats' lists once all output shards are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tasks import plugins, storage
from tasks.dataset import versions
from tasks.formats import Hashes
from tasks.job import Job
from tasks.packaging import plan


@contextmanager
def finished(job: Job, staging: Path, tables: Sequence[str]) -> Iterator[tuple[Path, Hashes]]:
    """Remove the plan and write the lists. Gives a local folder with these and the version's tables
    (the staging folder itself unless it is remote), and the digests of all shard files.
    `tables`: the files of the version's tables."""
    numbered = plan.numbered(staging)
    shards, hashes = [*numbered.values()], plan.all_hashes(staging, numbered)
    store = storage.of(staging)
    store.remove_tree(staging / plan.PLAN)
    formats = [(plugin.use, *plugins.resolve("formats", plugin)) for plugin in job.package.formats]
    wanted = list(dict.fromkeys([*tables, *(path.name for path in store.names(staging))]))
    sizes = dict[str, int | None].fromkeys(hashes)
    for use, module, _ in formats:
        paths = [path for shard in shards if shard.format == use for path in shard.files]
        wanted += [path for path in paths if path.endswith(module.READ_BACK)]
        if module.SIZED:
            sizes |= {path: hashes[path][1] for path in paths}
    with versions.finishing(staging, wanted, sizes, job.scratch) as home:
        for use, module, settings in formats:
            module.finish([shard for shard in shards if shard.format == use], home, settings)
        yield home, hashes
