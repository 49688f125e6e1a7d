"""Listed recordings as tables of RECORDINGS, with the hashes needed to compare them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from ... import storage
from ...base import masking
from ...base.arrays import Bools, FixedBytes, UInt64s
from ...base.schema import RECORDINGS, SegmentRow
from ...recording import Ignored, Recording, Segment, file_kinds, tracks
from ...recording.names import display_text
from ...settings import SourceSettings
from ...storage import bounds, tables, urls
from . import fingerprints
from .rttm import SideFiles
from .skipped import Skipped, SkippedEntries

ROWS = 10_000  # most in a batch, within `bounds.BATCH_BYTES`


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


def read(path: Path) -> Iterator[Batch]:
    """The batches in a file of RECORDINGS."""
    with tables.arrow(path) as file:
        for group in pq.ParquetFile(file).iter_batches(ROWS):
            yield of_table(pa.Table.from_batches([group]))


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
    home = _home(settings.path)
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
        size += _size(entry)
        if len(waiting) >= ROWS or size > bounds.BATCH_BYTES:
            yield _batch(name, settings, waiting, turns)
            waiting, size = [], 0
    if waiting:
        yield _batch(name, settings, waiting, turns)


def of_table(table: pa.Table) -> Batch:
    """Rows of RECORDINGS with their hashes."""
    guards, locators = (fingerprints.texts(table, name) for name in ("guard", "locator"))
    return Batch(
        table,
        fingerprints.keys(fingerprints.texts(table, "recording")),
        fingerprints.states(guards, locators),
        fingerprints.heads(fingerprints.texts(table, "listed")),
    )


def _size(recording: Recording) -> int:
    """Approximate bytes of its row."""
    length = 4 * len(recording.path) + len(recording.text or "")
    if not recording.segments:
        return length
    return length + sum(len(s.text or "") + 50 * len(s.words or ()) for s in recording.segments)


def _home(path: str) -> str:
    """The base of the paths of skipped entries: the source's folder, or that of its list."""
    home = urls.absolute(path)
    folder = storage.is_url(home) or os.path.isdir(home)
    return (home if folder else os.path.dirname(home)).rstrip("/")


def _batch(
    name: str, settings: SourceSettings, recordings: list[Recording], turns: SideFiles | None
) -> Batch:
    """Recordings of a source as rows: columns from the start, as there may be millions."""
    paths = [r.path for r in recordings]
    turned = [turns.turns_of(r) if turns is not None else (None, None) for r in recordings]
    errors = [r.error or (None, None) for r in recordings]
    spans = [r.segments for r in recordings]
    columns: dict[str, Sequence[object]] = {
        "recording": [f"{name}/{path}" for path in paths],
        "dataset": [name] * len(paths),
        "path": paths,
        "source_path": [r.source_path for r in recordings],
        "locator": [r.locator.dumps() for r in recordings],
        "size": [r.size for r in recordings],
        "guard": [r.guard for r in recordings],
        "source_id": [_unsigned(r.source_id) for r in recordings],
        "text": [r.text for r in recordings],
        "speaker": [r.speaker or settings.speaker_of(r.path) for r in recordings],
        "language": [r.language or settings.language for r in recordings],
        "segments": [s if s is None else [*map(_segment, s)] for s in spans],
        "present": [True] * len(paths),
        "error_code": [code for code, _ in errors],
        "error_detail": [detail for _, detail in errors],
        "length": [r.length for r in recordings],
        "labels": [[*r.labels] or None for r in recordings],
        "film_time": [r.film_time for r in recordings],
        "captions": [r.captions for r in recordings],
        "rttm": [turn for turn, _ in turned],
        "rttm_error": [fault for _, fault in turned],
    }
    columns["listed"] = fingerprints.listed_columns(columns)
    none = [None] * len(paths)
    arrays = [pa.array(columns.get(field.name) or none, field.type) for field in RECORDINGS]
    return of_table(pa.Table.from_arrays(arrays, schema=RECORDINGS))


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
