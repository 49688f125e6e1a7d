"""Lists each source once for a command that needs the listing several times: the check that it is
not empty, the plan before a run, and the run itself.

A listing is kept on disk: a large source has millions of rows.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ... import plugins, storage
from ...plugins import Dataset
from ...plugins.contracts.sources import SourceBranch
from ...recording import Recording
from ...settings import Plugin, SourceSettings
from ...settings.job import Job
from ...storage import owners, tables, temporary
from ..call import Call, of_shards
from . import entries, rttm
from .entries import Batch
from .skipped import SkippedEntries


@dataclass(frozen=True, slots=True)
class _Kept:
    """A listing: its source, and its file."""

    name: str
    settings: SourceSettings
    speakers: Plugin
    path: Path
    left: pa.Table
    recordings: int


class Listings:
    """The sources listed since the command began."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._all: list[_Kept] = []

    def find(self, job: Job, dataset: Dataset) -> _Kept | None:
        wanted = (dataset.name, dataset.settings, job.speakers)
        return next((k for k in self._all if (k.name, k.settings, k.speakers) == wanted), None)

    def list(self, job: Job, dataset: Dataset) -> _Kept:
        """List a source, unless that is done already."""
        if (kept := self.find(job, dataset)) is not None:
            return kept
        path = self._home / f"{len(self._all):03d}.parquet"
        skipped, count = SkippedEntries(), 0
        with pq.ParquetWriter(path, entries.HASHED, compression="lz4") as writer:
            for batch in listed(job, dataset, skipped):
                writer.write_table(entries.hashed(batch))
                count += len(batch.rows)
        fields = (dataset.name, dataset.settings, job.speakers, path, skipped.table(), count)
        self._all.append(kept := _Kept(*fields))
        return kept

    def forget(self) -> None:
        """Remove all listings: sources are listed anew from now on."""
        for kept in self._all:
            kept.path.unlink(missing_ok=True)
        self._all.clear()


_current: ContextVar[Listings | None] = ContextVar("listings", default=None)


@contextmanager
def listing() -> Iterator[None]:
    """Inside, no source is listed twice until `forget`."""
    if _current.get() is not None:
        yield
        return
    with temporary.scratch() as home, owners.naming(home.parent):
        token = _current.set(Listings(home))
        try:
            yield
        finally:
            _current.reset(token)


def forget() -> None:
    """List sources anew from now on: their listings were used, or are no longer fresh."""
    if (current := _current.get()) is not None:
        current.forget()


def listed(job: Job, dataset: Dataset, skipped: SkippedEntries) -> Iterator[Batch]:
    """The recordings that a source lists now; other entries go to `skipped`."""
    name, source, settings = dataset
    turns = rttm.of_job(job, settings)
    return entries.batches(name, settings, source.recordings(settings), skipped, turns)


def holds_recordings(job: Job, dataset: Dataset) -> bool:
    """Whether a source has any recordings. A source that workers list is only sampled."""
    current = _current.get()
    if current is not None:
        if (kept := current.find(job, dataset)) is not None:
            return kept.recordings > 0
        if branches(dataset) is None:
            return current.list(job, dataset).recordings > 0
    recordings = dataset.source.recordings(dataset.settings)
    return any(isinstance(entry, Recording) for entry in recordings)


def kept(job: Job, dataset: Dataset, skipped: SkippedEntries, make: bool) -> Iterator[Batch] | None:
    """The recordings of a source from this command's listing; `make` one if there is none, else
    None. Also None for a command that keeps no listings."""
    current = _current.get()
    if current is None or not (make or current.find(job, dataset)):
        return None
    kept_listing = current.list(job, dataset)
    skipped.extend(kept_listing.left)
    return entries.read(kept_listing.path)


# Lists a large source on the workers, a share of its folders in each call.

CALLS = 256  # worker calls per source
LEAST_BRANCHES = 64  # a source with fewer folders is listed by the main process
LEAST_KNOWN = 200_000  # recordings: with fewer, listing takes seconds

#: `tasks.runs.executor.Executor.map`.
Map = Callable[[Call[bool], Sequence[tuple[object, ...]]], list[bool]]


def branches(dataset: Dataset) -> Sequence[SourceBranch] | None:
    """The branches of a source that workers can list; None if it is listed as a whole."""
    return dataset.source.branches(dataset.settings, LEAST_BRANCHES)


def listed_on_workers(
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
    answers = run(Call("shard", "list", list_branches, of_shards(0)), calls)
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
