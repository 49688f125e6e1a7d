"""Writes and checks output shards on the workers, one a call.

Formats work in local folders only: on an object store, a worker writes a shard into a local folder
and uploads it, and checks what it downloads again.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from pathlib import Path

from tasks import plugins, storage
from tasks.checkpoints import blobs, manifest
from tasks.checkpoints.manifest import Row
from tasks.dataset import versions
from tasks.errors import CorruptManifest, RunError
from tasks.formats import Output, OutputShard
from tasks.job import Job
from tasks.packaging import plan, published, sources
from tasks.plugins.contracts import Format
from tasks.settings import StageSettings

log = logging.getLogger("uttermill")


def link(job: Job, staging: Path, part: int) -> list[int]:
    """Link the output shards of a part that the previous version has with the same content, if
    their files are intact. Returns the numbers of the other shards."""
    left = []
    newest = versions.newest(job.out)
    known = published.guards(job.out, newest) if newest else {}
    for index, shard in enumerate(plan.shards_of(staging, part)):
        if not shard.unchanged or not _linked(staging, shard, newest, known):
            left.append(plan.number_of(part, index))
    return left


def _linked(
    staging: Path, shard: OutputShard, newest: Path | None, known: Mapping[str, str]
) -> bool:
    """Link the files of a shard, or none if one is no longer as published. `known`: guards of the
    newest version's files."""
    assert newest is not None
    for old, new in zip(shard.unchanged, shard.files, strict=True):
        name = old.path.removeprefix(f"{newest}/")
        again = published.read_again(name, versions.number(newest))
        guard = "" if again else known.get(name, "")
        if not storage.of(staging).link(
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
    for path in shard.files:  # intact copies too: another encoder may have written them
        storage.remove(staging / path)
    return False


def write(job: Job, staging: Path, number: int) -> None:
    """Write a shard. CorruptManifest when a blob is damaged."""
    shard = plan.shard(staging, number)
    _remove_leftovers(staging, shard)
    module, settings = _format(job, shard)
    rows = sources.located(job, plan.rows(staging, number, "id", *plan.PCM_COLUMNS))
    verify = not module.PROVES_SAMPLES
    clips = [each for row in rows for each in (row, *blobs.beside(row))]
    with storage.of(staging).writing(staging) as home, blobs.reading(job.out, clips, verify) as pcm:
        out = Output(home)
        module.write(shard, rows, pcm, out, settings)
    plan.save_hashes(staging, number, out.hashes)


def _remove_leftovers(staging: Path, shard: OutputShard) -> None:
    """Remove what a dead worker left: it may be hard links into a published version, which must not
    be written through. An object is complete if it exists, and is never overwritten."""
    for path in shard.files:
        storage.of(staging).detach(staging / path)


def check(job: Job, staging: Path, number: int) -> None:
    """Read a shard back, decode everything, record its digests. A faulty shard is written once
    more; RunError if that is faulty too. CorruptManifest if a blob caused the fault: `write` copies
    PCM without checking it."""
    shard = plan.shard(staging, number)
    if faults := _faults(job, staging, number, shard):
        _check_blobs(job, sources.located(job, plan.rows(staging, number, "id", *plan.PCM_COLUMNS)))
        log.warning("%s; it is written once more", "; ".join(faults[:3]))
        for path in shard.files:
            storage.remove(staging / path)
        write(job, staging, number)
        faults = _faults(job, staging, number, shard)
    if faults:
        raise RunError(f"what was written does not read back: {'; '.join(faults[:3])}")


def _faults(job: Job, staging: Path, number: int, shard: OutputShard) -> list[str]:
    """Read a shard back and return its faults; if there are none, record the digests of its
    files."""
    module, settings = _format(job, shard)
    with storage.of(staging).reading(staging, shard.files) as home:
        out = Output(home, plan.load_hashes(staging, number))
        faults: list[str] = module.check(shard, plan.rows(staging, number), out, settings)
        found = {path: out.hashes.get(path) or storage.hashed(home / path) for path in shard.files}
    if not faults:
        plan.save_hashes(staging, number, found)
    return faults


def _format(job: Job, shard: OutputShard) -> tuple[Format, StageSettings]:
    plugin = next(plugin for plugin in job.package.formats if plugin.use == shard.format)
    return plugins.resolve("formats", plugin)


def _check_blobs(job: Job, rows: list[Row]) -> None:
    """CorruptManifest if blobs do not hold what the rows name; all damaged ones are discarded."""
    damaged: CorruptManifest | None = None
    rows = [each for row in rows for each in (row, *blobs.beside(row))]
    with blobs.reading(job.out, rows) as pcm:
        for row in rows:
            try:
                pcm(row)
            except CorruptManifest as fault:
                manifest.remove_damaged(fault)
                damaged = damaged or fault
    if damaged:
        raise damaged
