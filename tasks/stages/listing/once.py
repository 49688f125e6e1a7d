"""Lists each source once for a command that needs the listing several times: the check that it is
not empty, the plan before a run, and the run itself.

A listing is kept on disk: a large source has millions of rows.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow.parquet as pq

from ... import plugins
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
    name: str
    settings: SourceSettings
    speakers: Plugin
    path: Path
    skipped: SkippedEntries
    recordings: int


@dataclass(frozen=True, slots=True)
class _Listings:
    """The sources listed since the command began, and the folder of their files."""

    home: Path
    kept: list[_Kept] = field(default_factory=list)


_current: ContextVar[_Listings | None] = ContextVar("listings", default=None)


@contextmanager
def listing() -> Iterator[None]:
    """Inside, no source is listed twice until `forget`."""
    if _current.get() is not None:
        yield
        return
    with temporary.scratch() as home, owners.naming(home.parent):
        token = _current.set(_Listings(home))
        try:
            yield
        finally:
            _current.reset(token)


def forget() -> None:
    """List sources anew from now on: their listings were used, or are no longer fresh."""
    if (current := _current.get()) is not None:
        for kept in current.kept:
            kept.path.unlink(missing_ok=True)
        current.kept.clear()


def _kept(listings: _Listings, job: Job, dataset: Dataset) -> _Kept:
    """The listing of a source, made unless that is done already."""
    wanted = (dataset.name, dataset.settings, job.speakers)
    for kept in listings.kept:
        if (kept.name, kept.settings, kept.speakers) == wanted:
            return kept
    path = listings.home / f"{len(listings.kept):03d}.parquet"
    skipped, count = SkippedEntries(), 0
    with pq.ParquetWriter(path, RECORDINGS, compression="lz4") as writer:
        for batch in listed(job, dataset, skipped):
            writer.write_table(batch.rows)
            count += len(batch.rows)
    listings.kept.append(_Kept(*wanted, path, skipped, count))
    return listings.kept[-1]


def listed(job: Job, dataset: Dataset, skipped: SkippedEntries) -> Iterator[Batch]:
    """The recordings that a source lists now; other entries go to `skipped`."""
    name, source, settings = dataset
    by_source = plugins.DIARIZERS.load(job.speakers.use).USES_SPEAKERS
    turns = rttm.SideFiles(settings) if by_source else None
    return entries.batches(name, settings, source.recordings(settings), skipped, turns)


def holds_recordings(job: Job, dataset: Dataset) -> bool:
    if (current := _current.get()) is not None:
        return _kept(current, job, dataset).recordings > 0
    recordings = dataset.source.recordings(dataset.settings)
    return any(isinstance(entry, Recording) for entry in recordings)


def batches(job: Job, dataset: Dataset, skipped: SkippedEntries) -> Iterator[Batch]:
    """The recordings of a source, from this command's listing if it keeps one; other entries go to
    `skipped`."""
    if (current := _current.get()) is None:
        return listed(job, dataset, skipped)
    kept_listing = _kept(current, job, dataset)
    skipped.extend(kept_listing.skipped)
    return entries.read(kept_listing.path)
