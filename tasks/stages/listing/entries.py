"""Listed recordings as tables of RECORDINGS, with the hashes needed to compare them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, replace
from hashlib import blake2b, sha256
from itertools import repeat
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from ... import plugins, storage
from ...base import masking
from ...base.arrays import Bools, FixedBytes, UInt64s
from ...base.schema import RECORDINGS, AnyRow, SegmentRow
from ...plugins import Dataset
from ...recording import Ignored, Recording, Segment, file_kinds, tracks
from ...recording.names import display_text
from ...settings import Plugin, SourceSettings
from ...settings.job import Job
from ...shard_store.recipe import canonical
from ...storage import bounds, owners, sorted_keys, tables, temporary, urls
from . import rttm
from .rttm import SideFiles
from .skipped import Skipped, SkippedEntries

ROWS = 10_000  # most in a batch, within `bounds.BATCH_BYTES`
#: Columns that a source fills in for every recording.
DESCRIBED = (
    *("recording", "dataset", "path", "source_path", "locator", "present", "source_id"),
    *("text", "speaker", "language", "length", "rttm_error", "error_code", "error_detail"),
    *("segments", "rttm", "labels", "film_time", "captions"),
)
#: A recording as a source describes it, as `recipe.digest` encodes it.
DESCRIPTION = "[{" + ",".join(f'"{name}":%s' for name in sorted(DESCRIBED)) + "}]"
KEY = "S16"  # 128 bits of a recording's name: no collisions in ten million


@dataclass(frozen=True, slots=True)
class Batch:
    """Some listed recordings: rows of RECORDINGS, and their hashes."""

    rows: pa.Table
    keys: FixedBytes
    states: UInt64s
    heads: UInt64s  # first 64 bits of the column `listed`

    def where(self, chosen: Bools) -> Batch:
        """Some of its recordings; bool [recordings]."""
        rows = self.rows.filter(pa.array(chosen))
        return Batch(rows, self.keys[chosen], self.states[chosen], self.heads[chosen])


def batches(
    name: str,
    settings: SourceSettings,
    entries: Iterable[Recording | Ignored],
    skipped: SkippedEntries,
    turns: SideFiles | None = None,
) -> Iterator[Batch]:
    """The recordings of a source in batches; skipped entries go to `skipped`."""
    waiting: list[Recording] = []
    size = 0
    # The base of the paths of skipped entries: the source's folder, or that of its list.
    home = urls.absolute(settings.path)
    folder = storage.is_url(home) or os.path.isdir(home)
    home = (home if folder else os.path.dirname(home)).rstrip("/")
    chosen = settings.track != "default" or settings.channels != "mix"
    for entry in entries:
        if isinstance(entry, Ignored):
            path = display_text(f"{home}/{entry.path}")
            skipped.append(Skipped(name, path, entry.reason, entry.detail, entry.members))
            continue
        parts = [entry] if entry.segments is None else tracks.by_channels(entry)
        if extension := file_kinds.headerless(entry.source_path):
            parts = [
                replace(part, locator=replace(part.locator, headerless=extension)) for part in parts
            ]
        waiting += (_chosen(part, settings) for part in parts) if chosen else parts
        size += 4 * len(entry.path) + len(entry.text or "")
        for segment in entry.segments or ():
            size += len(segment.text or "") + 50 * len(segment.words or ())
        if len(waiting) >= ROWS or size > bounds.BATCH_BYTES:
            yield _batch(name, settings, waiting, turns)
            waiting, size = [], 0
    if waiting:
        yield _batch(name, settings, waiting, turns)


def of_table(table: pa.Table) -> Batch:
    states = bytearray()
    for guard, locator in zip(
        table["guard"].to_pylist(), table["locator"].to_pylist(), strict=True
    ):
        states += blake2b(f"{guard}\0{locator}".encode(), digest_size=8).digest()
    names, digests = table["recording"].to_pylist(), table["listed"].to_pylist()
    return Batch(table, keys(names), np.frombuffer(bytes(states), np.uint64), heads(digests))


def keys(names: Iterable[str]) -> FixedBytes:
    """A hash of 16 bytes of each recording's name."""
    hashes = (blake2b(name.encode(), digest_size=16).digest() for name in names)
    return np.frombuffer(b"".join(hashes), KEY)


def heads(digests: Iterable[str | None]) -> UInt64s:
    """The first 64 bits of each hexadecimal digest; 0 if there is none."""
    return np.fromiter((int((digest or "0")[:16], 16) for digest in digests), np.uint64)


def listed(row: AnyRow) -> str:
    """A hash of the source's description of a recording: a row of RECORDINGS without its guard, its
    size, and the columns that probing fills in."""
    return listed_columns({name: [row.get(name)] for name in DESCRIBED})[0]


def listed_columns(columns: Mapping[str, Sequence[Any]]) -> list[str]:
    """`listed` of each row, which is `recipe.digest` of its columns; what all rows say is encoded
    once, as there may be millions."""
    count = len(columns["recording"])
    encoded: list[Iterable[str]] = []
    for name in sorted(DESCRIBED):
        values = columns.get(name, [None])
        if name == "segments":
            values = [
                s and [{**one, "labels": one.get("labels") or None} for one in s] for s in values
            ]
        alike = values.count(values[0]) == len(values)
        encoded.append(repeat(canonical(values[0]), count) if alike else map(canonical, values))
    rows = zip(*encoded, strict=True)
    return [sha256((DESCRIPTION % row).encode()).hexdigest()[:24] for row in rows]


class Seen:
    """Keys seen so far, in sorted runs that are merged once they have similar sizes."""

    def __init__(self) -> None:
        self._runs: list[FixedBytes] = []

    def again(self, listed_keys: FixedBytes) -> Bools:
        """Which keys were seen before or occur earlier in `listed_keys`; marks all as seen."""
        _, first = np.unique(listed_keys, return_index=True)
        repeated = np.ones(len(listed_keys), bool)
        repeated[first] = False
        for run in self._runs:
            repeated |= sorted_keys.index_in(run, listed_keys) >= 0
        self._runs.append(np.sort(listed_keys[~repeated]))
        while len(self._runs) > 1 and len(self._runs[-2]) <= 2 * len(self._runs[-1]):
            last = self._runs.pop()
            self._runs[-1] = np.sort(np.concatenate([self._runs[-1], last]))
        return repeated


def _batch(
    name: str, settings: SourceSettings, recordings: list[Recording], turns: SideFiles | None
) -> Batch:
    """Recordings of a source as rows."""
    rows: list[dict[str, Any]] = []
    for r in recordings:
        lines, fault = (None, None) if turns is None else turns.turns_of(r)
        row = {
            "recording": f"{name}/{r.path}",
            "dataset": name,
            "path": r.path,
            "source_path": r.source_path,
            "locator": r.locator.dumps(),
            "size": r.size,
            "guard": r.guard,
            "source_id": _unsigned(r.source_id),
            "text": r.text,
            "speaker": r.speaker or settings.speaker_of(r.path),
            "language": r.language or settings.language,
            "segments": r.segments and [*map(_segment, r.segments)],
            "length": r.length,
            "labels": [*r.labels] or None,
            "film_time": r.film_time,
            "captions": r.captions,
            "present": True,
            "rttm": lines,
            "rttm_error": fault,
        }
        row["error_code"], row["error_detail"] = r.error or (None, None)
        rows.append(row)
    columns: dict[str, list[Any]] = dict.fromkeys(RECORDINGS.names, [None] * len(rows))
    for column in rows[0]:
        columns[column] = [*map(itemgetter(column), rows)]
    columns["listed"] = listed_columns(columns)
    return of_table(pa.table(columns, RECORDINGS))


def _chosen(r: Recording, settings: SourceSettings) -> Recording:
    """The recording with the source's choice of track and channels. Another track or channel is
    another recording: what is known of one does not apply to the other."""
    if settings.track == "all":
        r = replace(r, locator=replace(r.locator, every_track=True))
    elif settings.track != "default":
        where = replace(r.locator, track=settings.track)
        r = replace(r, path=f"{r.path}#{settings.track}", locator=where)
    if r.locator.channels is not None or settings.channels == "mix":
        return r
    if settings.channels in ("apart", "auto"):
        return replace(r, locator=replace(r.locator, apart=settings.channels))
    return tracks.of_channels(r, (0 if settings.channels == "first" else int(settings.channels),))


def _segment(s: Segment) -> SegmentRow:
    row: SegmentRow = {
        "start": s.start,
        "end": s.end,
        "source_id": _unsigned(s.source_id),
        "text": s.text,
        "speaker": s.speaker,
        "language": s.language,
    }
    if s.words:
        row["words"] = [{"word": w.word, "start": w.start, "end": w.end} for w in s.words]
    if s.labels:
        row["labels"] = [*s.labels]
    return row


def _unsigned(key: str | None) -> str | None:
    """A source's own key; if it is a signed link, as in some sources, the address without its
    signature."""
    return masking.address(key) if key and masking.is_address(key) else key


# Lists each source once for a command that needs the listing several times: the check that it is
# not empty, the plan before a run, and the run itself. A listing is kept on disk: a large source
# has millions of rows.


class _Kept(NamedTuple):
    of: tuple[str, SourceSettings, Plugin]  # the name and settings of a dataset; the diarizer
    path: Path
    skipped: SkippedEntries
    recordings: int


#: The folder of listings, and those that were made since the command began.
_current: ContextVar[tuple[Path, list[_Kept]] | None] = ContextVar("listings", default=None)


@contextmanager
def listed_once() -> Iterator[None]:
    """Inside, no source is listed twice until `forget`."""
    if _current.get() is not None:
        yield
        return
    with temporary.scratch() as home, owners.naming(home.parent):
        token = _current.set((home, []))
        try:
            yield
        finally:
            _current.reset(token)


def forget_listings() -> None:
    """List sources anew from now on: their listings were used, or are no longer fresh."""
    _, listings = _current.get() or (None, [])
    while listings:
        listings.pop().path.unlink(missing_ok=True)


def _kept(home: Path, listings: list[_Kept], job: Job, dataset: Dataset) -> _Kept:
    """The listing of a source, made unless that is done already."""
    wanted = (dataset.name, dataset.settings, job.speakers)
    for kept in listings:
        if kept.of == wanted:
            return kept
    path = home / f"{len(listings):03d}.parquet"
    skipped, count = SkippedEntries(), 0
    with pq.ParquetWriter(path, RECORDINGS, compression="lz4") as writer:
        for batch in listed_now(job, dataset, skipped):
            writer.write_table(batch.rows)
            count += len(batch.rows)
    listings.append(_Kept(wanted, path, skipped, count))
    return listings[-1]


def listed_now(job: Job, dataset: Dataset, skipped: SkippedEntries) -> Iterator[Batch]:
    """The recordings that a source lists now; other entries go to `skipped`."""
    name, source, settings = dataset
    by_source = plugins.DIARIZERS.load(job.speakers.use).USES_SPEAKERS
    turns = rttm.SideFiles(settings) if by_source else None
    return batches(name, settings, source.recordings(settings), skipped, turns)


def holds_recordings(job: Job, dataset: Dataset) -> bool:
    if (current := _current.get()) is not None:
        return _kept(*current, job, dataset).recordings > 0
    recordings = dataset.source.recordings(dataset.settings)
    return any(isinstance(entry, Recording) for entry in recordings)


def batches_of(job: Job, dataset: Dataset, skipped: SkippedEntries) -> Iterator[Batch]:
    """The recordings of a source, from this command's listing if it keeps one; other entries go to
    `skipped`."""
    if (current := _current.get()) is None:
        yield from listed_now(job, dataset, skipped)
        return
    kept_listing = _kept(*current, job, dataset)
    skipped.extend(kept_listing.skipped)
    with tables.arrow(kept_listing.path) as file:
        for group in pq.ParquetFile(file).iter_batches(ROWS):
            yield of_table(pa.Table.from_batches([group]))
