"""Lists a large source on the workers, a share of its folders in each call."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from tasks import plugins, storage
from tasks.plugins import Dataset
from tasks.plugins.contracts.sources import SourceBranch
from tasks.settings.job import Job
from tasks.stages.listing import entries, rttm
from tasks.stages.listing.entries import Batch
from tasks.stages.listing.skipped import SkippedEntries
from tasks.storage import tables

CALLS = 256  # in which a source is listed
LEAST_BRANCHES = 64  # a source with fewer folders is listed where the run is
LEAST_KNOWN = 200_000  # recordings: where fewer are known, listing takes seconds

#: `tasks.runs.executor.Executor.map`.
Map = Callable[[Callable[..., bool], Sequence[tuple[object, ...]]], list[bool]]


def branches(dataset: Dataset) -> Sequence[SourceBranch] | None:
    """The branches of a source that workers list if they may; None if it is listed as a whole."""
    return dataset.source.branches(dataset.settings, LEAST_BRANCHES)


def listed(
    job: Job,
    number: int,
    branches: Sequence[SourceBranch],
    home: Path,
    run: Map,
    skipped: SkippedEntries,
) -> Iterator[Batch] | None:
    """The recordings of the source with this number, listed by branches; None if links between its
    folders require listing it as a whole."""
    step = -(-len(branches) // CALLS)
    shares = [tuple(branches[i : i + step]) for i in range(0, len(branches), step)]
    calls = [(job, number, share, home, place) for place, share in enumerate(shares)]
    answers = run(list_branches, calls)
    if not all(answers):
        return None
    return _read(home, number, len(shares), skipped)


def list_branches(
    job: Job, number: int, branches: Sequence[SourceBranch], home: Path, place: int
) -> bool:
    """On a worker: list some branches of a source into files; False if they cannot be listed
    independently."""
    name, source, settings = plugins.datasets(job.sources)[number]
    skipped, turns = SkippedEntries(), rttm.of_job(job, settings)
    written = io.BytesIO()
    with pq.ParquetWriter(written, entries.HASHED, compression="lz4") as writer:
        for branch in branches:
            recordings = source.branch(settings, branch)
            if recordings is None:
                return False
            for batch in entries.batches(name, settings, recordings, skipped, turns):
                writer.write_table(entries.hashed(batch))
    rows, aside = _files(home, number, place)
    storage.of(rows).write(rows, written.getvalue())
    storage.of(aside).write(aside, tables.parquet(skipped.table()))
    return True


def _read(home: Path, number: int, count: int, skipped: SkippedEntries) -> Iterator[Batch]:
    for place in range(count):
        rows, aside = _files(home, number, place)
        skipped.extend(tables.read(aside))
        yield from entries.read(rows)


def _files(home: Path, number: int, place: int) -> tuple[Path, Path]:
    stem = f"{number:03d}-{place:05d}"
    return home / f"rows-{stem}.parquet", home / f"aside-{stem}.parquet"
