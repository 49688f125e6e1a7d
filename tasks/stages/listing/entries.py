"""Listed recordings as tables of RECORDINGS, with the hashes needed to compare them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks import storage
from tasks.base import masking
from tasks.base.arrays import FixedBytes, UInt64s
from tasks.base.schema import RECORDINGS, RecordingRow, SegmentRow
from tasks.recording import Ignored, Recording, Segment, by_channel
from tasks.recording.names import display_text
from tasks.settings import SourceSettings
from tasks.stages.listing import fingerprints
from tasks.stages.listing.rttm import SideFiles
from tasks.stages.listing.skipped import Skipped, SkippedEntries
from tasks.storage import bounds, tables, urls

ROWS = 10_000  # of a batch, if they have no more than `bounds.BATCH_BYTES`


#: A batch in a file.
HASHED = pa.schema(
    [
        *RECORDINGS,
        pa.field("_key", pa.binary(16)),
        pa.field("_state", pa.uint64()),
        pa.field("_head", pa.uint64()),
    ]
)


@dataclass(frozen=True, slots=True)
class Batch:
    """Some listed recordings: rows of RECORDINGS, and their hashes."""

    rows: pa.Table
    keys: FixedBytes
    states: UInt64s
    heads: UInt64s  # of the column `listed`


def hashed(batch: Batch) -> pa.Table:
    """HASHED of a batch."""
    table = batch.rows.append_column("_key", fingerprints.stored(batch.keys))
    for title, column in zip(HASHED.names[-2:], (batch.states, batch.heads), strict=True):
        table = table.append_column(title, pa.array(column))
    return table.cast(HASHED)


def read(path: Path) -> Iterator[Batch]:
    """The batches in a file of HASHED."""
    with tables.arrow(path) as file:
        for group in pq.ParquetFile(file).iter_batches(ROWS):
            table = pa.Table.from_batches([group]).combine_chunks()
            keys = fingerprints.loaded(table["_key"].chunk(0))
            numbers = (table[name].to_numpy() for name in HASHED.names[-2:])
            yield Batch(table.select(RECORDINGS.names), keys, *numbers)


def batches(
    name: str,
    settings: SourceSettings,
    entries: Iterable[Recording | Ignored],
    skipped: SkippedEntries,
    turns: SideFiles | None = None,
) -> Iterator[Batch]:
    """The recordings of a source in batches; skipped entries go to `skipped`."""
    rows: list[RecordingRow] = []
    size = 0
    home = _home(settings.path)
    for entry in entries:
        if isinstance(entry, Ignored):
            path = display_text(f"{home}/{entry.path}")
            skipped.append(Skipped(name, path, entry.reason, entry.detail))
            continue
        for recording in by_channel.divided(entry):
            rows.append(_row(name, settings, recording, turns))
        size += _size(entry)
        if len(rows) >= ROWS or size > bounds.BATCH_BYTES:
            yield of_rows(rows)
            rows, size = [], 0
    if rows:
        yield of_rows(rows)


def of_rows(rows: list[RecordingRow]) -> Batch:
    return of_table(pa.Table.from_pylist(rows, schema=RECORDINGS))


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
    """About how many bytes a row of it takes."""
    length = 4 * len(recording.path) + len(recording.text or "")
    if not recording.segments:
        return length
    return length + sum(len(s.text or "") + 50 * len(s.words or ()) for s in recording.segments)


def _home(path: str) -> str:
    """The base of the paths of skipped entries: the source's folder, or that of its list."""
    home = urls.absolute(path)
    folder = storage.is_url(home) or os.path.isdir(home)
    return (home if folder else os.path.dirname(home)).rstrip("/")


def _row(
    name: str, settings: SourceSettings, r: Recording, turns: SideFiles | None
) -> RecordingRow:
    r = _chosen(r, settings)
    segments = None if r.segments is None else [_segment(s) for s in r.segments]
    row: RecordingRow = {
        "recording": f"{name}/{r.path}",
        "dataset": name,
        "path": r.path,
        "source_path": r.source_path,
        "locator": r.locator.dumps(),
        "size": r.size,
        "guard": r.guard,
        "listed": "",
        "source_id": _unsigned(r.source_id),
        "text": r.text,
        "speaker": r.speaker,
        "language": r.language or settings.language,
        "segments": segments,
        "present": True,
        "error_code": r.error[0] if r.error else None,
        "error_detail": r.error[1] if r.error else None,
        "length": r.length,
    }
    if r.labels:
        row["labels"] = [*r.labels]
    if turns is not None:
        row["rttm"], row["rttm_error"] = turns.of(r)
    row["listed"] = fingerprints.listed(row)
    return row


def _chosen(r: Recording, settings: SourceSettings) -> Recording:
    """What the source reads of a file. Another track or channel is another recording: what is known
    of one says nothing about the other."""
    if settings.track == "all":
        r = replace(r, locator=replace(r.locator, every_track=True))
    elif settings.track != "default":
        where = replace(r.locator, track=settings.track)
        r = replace(r, path=f"{r.path}#{settings.track}", locator=where)
    if r.locator.channels is not None or settings.channels == "mix":
        return r
    if settings.channels in ("apart", "auto"):
        return replace(r, locator=replace(r.locator, apart=settings.channels))
    return by_channel.named(r, (0 if settings.channels == "first" else int(settings.channels),))


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
    """A source's own key; of a signed link, which some take for one, what it links to."""
    return masking.address(key) if key and masking.is_address(key) else key
