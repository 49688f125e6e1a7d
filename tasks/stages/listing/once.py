"""Lists each source once for a command that needs the listing several times: the check that it is
not empty, the plan before a run, and the run itself.

A listing is kept on disk: a large source has millions of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from pathlib import Path

import pyarrow.parquet as pq

from ...base.schema import RECORDINGS
from ...plugins import Dataset
from ...recording import Recording
from ...settings import Plugin, SourceSettings
from ...settings.job import Job
from ...storage import owners, temporary
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
    skipped: SkippedEntries
    recordings: int


class Listings:
    """The sources listed since the command began."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._all: list[_Kept] = []

    def list(self, job: Job, dataset: Dataset) -> _Kept:
        """List a source, unless that is done already."""
        wanted = (dataset.name, dataset.settings, job.speakers)
        for kept in self._all:
            if (kept.name, kept.settings, kept.speakers) == wanted:
                return kept
        path = self._home / f"{len(self._all):03d}.parquet"
        skipped, count = SkippedEntries(), 0
        with pq.ParquetWriter(path, RECORDINGS, compression="lz4") as writer:
            for batch in listed(job, dataset, skipped):
                writer.write_table(batch.rows)
                count += len(batch.rows)
        fields = (dataset.name, dataset.settings, job.speakers, path, skipped, count)
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
    """Whether a source has any recordings."""
    if (current := _current.get()) is not None:
        return current.list(job, dataset).recordings > 0
    recordings = dataset.source.recordings(dataset.settings)
    return any(isinstance(entry, Recording) for entry in recordings)


def batches(job: Job, dataset: Dataset, skipped: SkippedEntries) -> Iterator[Batch]:
    """The recordings of a source, from this command's listing if it keeps one; other entries go to
    `skipped`."""
    if (current := _current.get()) is None:
        return listed(job, dataset, skipped)
    kept_listing = current.list(job, dataset)
    skipped.extend(kept_listing.skipped)
    return entries.read(kept_listing.path)
