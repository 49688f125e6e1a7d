"""Writes output shards and reads them back, one in each worker call; then the formats' lists.

Formats work in local folders only: on an object store, a worker writes a shard into a local folder
and uploads it, and downloads it again to check it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ... import plugins, storage
from ...base.errors import CorruptManifest, RunError
from ...base.logs import log
from ...base.schema import ClipRow
from ...formats import Hashes, Output, OutputShard
from ...plugins.contracts import Format
from ...settings import StageSettings
from ...settings.job import Job
from ...shard_store import blobs, manifest
from ...storage import publication, versions
from .. import previous_version
from ..output_shards import plan
from ..published_columns import PCM_COLUMNS


class Linked(NamedTuple):
    """What became of the output shards of a part of the plan."""

    written: list[int]  # numbers of those that must be written
    lost: list[str]  # files of the newest version that are missing or damaged


def link(job: Job, staging: Path, part: int) -> Linked:
    """On a worker: link those output shards of a part that the newest version has, too."""
    result = Linked([], [])
    newest = versions.newest(job.out)
    guards = previous_version.guards(job.out, newest) if newest else {}
    for index, shard in enumerate(plan.shards_of(staging, part)):
        if newest is None or not shard.unchanged:
            result.written.append(plan.number_of(part, index))
        elif not _linked(staging, shard, newest, guards):
            result.lost.extend(old.path.removeprefix(f"{newest}/") for old in shard.unchanged)
    return result


def _linked(staging: Path, shard: OutputShard, newest: Path, guards: Mapping[str, str]) -> bool:
    """Link the files of a shard; False if one differs from what was published."""
    for old, new in zip(shard.unchanged, shard.files, strict=True):
        name = old.path.removeprefix(f"{newest}/")
        guard = previous_version.guard(guards, newest, name)
        if not storage.store_of(staging).link(
            storage.place(old.path), staging / new, old.sha256, old.size, guard
        ):
            break
    else:
        return True
    path = shard.unchanged[0].path
    log.warning(
        "%s is damaged or gone; the new version gets a new one",
        path if len(shard.unchanged) == 1 else f"a file of {path}",
    )
    return False


def write(job: Job, staging: Path, number: int) -> None:
    """On a worker: write a shard, read it back, decode everything and record its digests. A faulty
    shard is written once more; RunError if that is faulty, too. CorruptManifest if a blob is
    damaged, after removing all damaged ones of the shard."""
    shard = plan.shard(staging, number)
    _write(job, staging, number, shard)
    if faults := _faults(job, staging, number, shard):
        log.warning("%s; it is written once more", "; ".join(faults[:3]))
        for path in shard.files:
            storage.remove(staging / path)
        _write(job, staging, number, shard)
        faults = _faults(job, staging, number, shard)
    if faults:
        raise RunError(f"what was written does not read back: {'; '.join(faults[:3])}")


def _write(job: Job, staging: Path, number: int, shard: OutputShard) -> None:
    # A file that a dead worker left may be a link into a published version.
    for path in shard.files:
        storage.store_of(staging).detach(staging / path)
    module, settings = _format(job, shard)
    rows = plan.rows(staging, number, shard, "id", *PCM_COLUMNS)
    clips = [clip for row in rows for clip in (row, *blobs.beside(row), *blobs.sides(row))]
    try:
        with (
            storage.store_of(staging).writing(staging) as home,
            blobs.reading(job.out, clips) as pcm,
        ):
            out = Output(home)
            module.write(shard, rows, pcm, out, settings)
    except CorruptManifest:
        _remove_damaged_blobs(job, clips)
        raise
    plan.save_hashes(staging, number, out.hashes)


def _faults(job: Job, staging: Path, number: int, shard: OutputShard) -> list[str]:
    """The faults of a shard; if there are none, the digests of its files are recorded."""
    module, settings = _format(job, shard)
    with storage.store_of(staging).reading(staging, shard.files) as home:
        out = Output(home, plan.load_hashes(staging, number))
        faults: list[str] = module.check(shard, plan.rows(staging, number, shard), out, settings)
        hashes = {path: out.hashes.get(path) or storage.hashed(home / path) for path in shard.files}
    if not faults:
        plan.save_hashes(staging, number, hashes)
    return faults


def _format(job: Job, shard: OutputShard) -> tuple[Format, StageSettings]:
    plugin = next(plugin for plugin in job.package.formats if plugin.use == shard.format)
    return plugins.FORMATS.resolve(plugin)


def _remove_damaged_blobs(job: Job, clips: list[ClipRow]) -> None:
    """Remove the blobs that do not hold the PCM that the rows name."""
    with blobs.reading(job.out, clips) as pcm:
        for clip in clips:
            try:
                pcm(clip)
            except CorruptManifest as fault:
                manifest.repair(job.out, fault)


@contextmanager
def finished(job: Job, staging: Path, tables: Sequence[str]) -> Iterator[tuple[Path, Hashes]]:
    """Remove the plan and write the formats' lists. Yields a local folder with the lists and the
    version's tables (the staging folder itself unless it is remote), and the digests of all shard
    files. `tables`: files of the version's tables."""
    numbered = plan.numbered(staging)
    shards, hashes = [*numbered.values()], plan.all_hashes(staging, numbered)
    store = storage.store_of(staging)
    store.remove_tree(staging / plan.PLAN)
    formats = [(plugin.use, *plugins.FORMATS.resolve(plugin)) for plugin in job.package.formats]
    wanted = list(dict.fromkeys([*tables, *(path.name for path in store.names(staging))]))
    sizes = dict[str, int | None].fromkeys(hashes)
    for use, module, _ in formats:
        paths = [path for shard in shards if shard.format == use for path in shard.files]
        wanted += [path for path in paths if path.endswith(module.READ_BACK)]
        if module.SIZED:
            sizes |= {path: hashes[path][1] for path in paths}
    with publication.publisher(staging).finishing(staging, wanted, sizes, job.scratch) as home:
        for use, module, settings in formats:
            module.finish([shard for shard in shards if shard.format == use], home, settings)
        yield home, hashes
