"""Stage shard: sources in, balanced shards of probed recordings out; append-only.

An item is a recording. `survey` lists the sources and compares them with the known recordings;
`probe` (on the workers) reads headers and content digests of new and changed ones; `settle` groups
new recordings into shards of about equal duration by header, longest first, and commits. A
recording stays in its shard for ever; one that has left its source is only marked.
"""

from __future__ import annotations

import io
import os
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heapify, heapreplace
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.parquet as pq

from tasks import plugins, storage
from tasks.checkpoints import manifest
from tasks.checkpoints.manifest import Row
from tasks.errors import MAY_PASS
from tasks.job import Job
from tasks.recipe import digest
from tasks.recording import Ignored, Locator, Recording
from tasks.recording.guard import current_guard
from tasks.recording.names import display_text
from tasks.schema import RECORDINGS
from tasks.settings import ShardSettings, SourceSettings
from tasks.storage import tables

MINUTE, HOUR = 60.0, 3600.0
#: Least audio of a shard by default. A minute of it is ten seconds of work for a recogniser on a
#: CPU, and a tenth of one without: Prefect's share, 25 ms of CPU a task run, would be most of that.
LEAST, LEAST_UNHEARD = MINUTE, 15 * MINUTE


class LeftAside(NamedTuple):
    """An entry of a source that is not used as a recording, with the reason."""

    dataset: str
    source_path: str
    reason: str


@dataclass(slots=True)
class Survey:
    """What the sources hold now, compared with what is known. Rows are of schema RECORDINGS."""

    known: dict[str, list[Row]] = field(default_factory=dict)  # shard: its rows, updated
    touched: set[str] = field(default_factory=set)  # shards whose rows changed
    probe: list[tuple[str | None, Row]] = field(default_factory=list)  # shard (None: new), row
    reused: int = 0
    left: list[LeftAside] = field(default_factory=list)
    removed: list[str] = field(default_factory=list)

    @property
    def ignored(self) -> dict[str, int]:
        """How many entries were left aside, by reason."""
        return dict(sorted(Counter(each.reason for each in self.left).items()))

    def present(self, shard: str) -> list[Row]:
        return [row for row in self.known[shard] if row["present"]]


def survey(job: Job) -> Survey:
    """List all sources and find what is new, changed, unchanged or gone. Reads no audio."""
    result = Survey()
    where: dict[str, tuple[str, int]] = {}
    for shard in manifest.shards(job.out):
        parts = manifest.read(job.out, "shard", shard)
        result.known[shard] = parts[-1].table.to_pylist() if parts else []
        for index, row in enumerate(result.known[shard]):
            where[row["recording"]] = (shard, index)
    listed: set[str] = set()
    fresh: list[tuple[str | None, int, Row]] = []
    for name, source, settings in plugins.datasets(job.sources):
        for entry in source.recordings(settings):
            if isinstance(entry, Ignored):
                path = _in_source(settings, entry.path)
                result.left.append(LeftAside(name, path, entry.reason))
                continue
            row = _row(name, settings, entry)
            if row["recording"] in listed:
                result.left.append(LeftAside(name, row["source_path"], "duplicate_path"))
                continue
            listed.add(row["recording"])
            place = where.get(row["recording"])
            old = result.known[place[0]][place[1]] if place else None
            again = job.shard.retry and old is not None and old["error_code"] in MAY_PASS
            if (
                old
                and old["guard"] == row["guard"]
                and old["locator"] == row["locator"]
                and not again
            ):
                result.reused += 1
                _refresh(result, place, old, row)
            else:
                fresh.append((place[0] if place else None, place[1] if place else -1, row))
    _settle_time(job.shard, fresh, result)
    for recording, (shard, index) in where.items():
        old = result.known[shard][index]
        if recording not in listed and old["present"]:
            old["present"] = False
            result.touched.add(shard)
            result.removed.append(recording)
    return result


def _in_source(settings: SourceSettings, path: str) -> str:
    """Path of an entry that a source left aside: below its folder, or beside its list."""
    home = storage.normal(settings.path) if storage.is_url(settings.path) else settings.path
    if not storage.is_url(home):
        home = os.path.abspath(home)
        home = home if os.path.isdir(home) else os.path.dirname(home)
    return display_text(f"{home.rstrip('/')}/{path}")


def still_written(row: Row) -> LeftAside:
    """A recording that changed while it was read; the next run takes it."""
    return LeftAside(row["dataset"], row["source_path"], "still_written")


def _row(name: str, settings: SourceSettings, r: Recording) -> Row:
    segments = (
        None
        if r.segments is None
        else [
            {
                "start": s.start,
                "end": s.end,
                "source_id": s.source_id,
                "text": s.text,
                "speaker": s.speaker,
                "language": s.language,
            }
            for s in r.segments
        ]
    )
    row: Row = {
        "recording": f"{name}/{r.path}",
        "dataset": name,
        "path": r.path,
        "source_path": r.source_path,
        "locator": r.locator.dumps(),
        "size": r.size,
        "guard": r.guard,
        "source_id": r.source_id,
        "text": r.text,
        "speaker": r.speaker,
        "language": r.language or settings.language,
        "segments": segments,
        "present": True,
        "error_code": r.error[0] if r.error else None,
        "error_detail": r.error[1] if r.error else None,
    }
    row["listed"] = digest({k: v for k, v in row.items() if k not in ("guard", "size")})
    return row


def _refresh(result: Survey, place: tuple[str, int] | None, old: Row, row: Row) -> None:
    """Update what the source says of unchanged bytes: texts, segments."""
    assert place is not None
    if old["listed"] == row["listed"] and old["present"]:
        return
    keep = ("content", "header_rate", "header_channels", "header_seconds", "format")
    merged = {**row, **{k: old[k] for k in keep}}
    if old["error_code"] and not row["error_code"] and old["content"] is None:
        merged["error_code"], merged["error_detail"] = old["error_code"], old["error_detail"]
    result.known[place[0]][place[1]] = merged
    result.touched.add(place[0])


def _settle_time(
    settings: ShardSettings, fresh: list[tuple[str | None, int, Row]], result: Survey
) -> None:
    """Wait, and leave files that are still being written for the next run. Objects in a store are
    always complete."""
    wait = 0.0
    for _, _, row in fresh:
        path = Locator.loads(row["locator"]).path
        if storage.is_url(path):
            continue
        try:
            age = time.time() - os.stat(path).st_mtime
        except OSError:
            continue
        if 0 <= age < settings.settle_seconds:
            wait = max(wait, settings.settle_seconds - age)
    if wait:
        time.sleep(wait)
    for shard, index, row in fresh:
        path = Locator.loads(row["locator"]).path
        try:
            now = row["guard"] if storage.is_url(path) else current_guard(path)
        except OSError:
            now = row["guard"]
        if wait and now != row["guard"] and not row["error_code"]:
            result.left.append(still_written(row))
            if shard is not None:  # what was known of it no longer holds
                result.known[shard][index]["present"] = False
                result.touched.add(shard)
        else:
            result.probe.append((shard, row))


def save_listing(rows: Sequence[Row], path: Path) -> None:
    """Write the rows to probe for the workers: the scheduler carries a path and two numbers."""
    table = pa.Table.from_pylist(list(rows), schema=RECORDINGS)
    written = io.BytesIO()
    pq.write_table(table, written)
    storage.of(path).write(path, written.getvalue())


def load_listing(path: Path) -> list[Row]:
    rows: list[Row] = tables.read(path).to_pylist()
    return rows


def probe(job: Job, listing: Path, low: int, high: int, isolate: bool = False) -> Path:
    """On a worker: read header and digest of rows `low` to `high`; returns the path of the result.
    With `isolate` each runs in a disposable process: one that kills it is quarantined."""
    from tasks.stages import isolate as isolation
    from tasks.stages import probe as probing  # decodes: heavy to import, and only workers do it

    units = [probing.Unit(row) for row in tables.read(listing).slice(low, high - low).to_pylist()]
    found = isolation.results("probe", job, units) if isolate else probing.compute(units, job)
    target = listing.with_name(f"{listing.stem}-{low:09d}.parquet")
    save_listing([row for rows in found for row in rows], target)
    return target


def settle(job: Job, found: Survey, rows: Sequence[Row]) -> list[str]:
    """Commit changed rows to their shards and new ones to new shards. Returns all shards.

    A new recording whose bytes were known under a name that is gone joins the shard that knows
    them: a source that was moved or is listed differently is neither cut nor transcribed again.
    """
    places = {row["recording"]: shard for shard, row in found.probe}
    new = [
        row for row in rows if places[row["recording"]] is None and row["error_code"] != "changed"
    ]
    for row in rows:
        shard = places[row["recording"]]
        if shard is not None:
            old = found.known[shard]
            index = next(i for i, o in enumerate(old) if o["recording"] == row["recording"])
            old[index] = {**row, "present": row["error_code"] != "changed"}
            found.touched.add(shard)
    if new and found.known:
        new = _joined(found, new)
    first = max((int(name.split("-")[1]) for name in found.known), default=-1) + 1
    for number, group in enumerate(grouped(new, job.shard.hours, least(job)), start=first):
        name = f"shard-{number:06d}"
        found.known[name] = group
        found.touched.add(name)
    for shard in sorted(found.touched):
        path = manifest.commit(job.out, "shard", shard, found.known[shard], RECORDINGS, {})
        manifest.supersede(job.out, "shard", shard, path)
    return [name for name in found.known if found.present(name)]


def _joined(found: Survey, new: list[Row]) -> list[Row]:
    """Add new recordings to the shards that know their bytes under a name that is gone; returns
    the others."""
    homes: dict[str, str] = {}
    for shard in sorted(found.known):
        for row in found.known[shard]:
            if row["content"] and not row["error_code"] and not row["present"]:
                homes.setdefault(row["content"], shard)
    rest = []
    for row in new:
        home = None if row["error_code"] else homes.get(row.get("content") or "")
        if home is None:
            rest.append(row)
        else:
            found.known[home].append(row)
            found.touched.add(home)
    return rest


def least(job: Job) -> float:
    """Least audio of a shard by default, s."""
    recogniser = plugins.load("asr", job.transcribe.backend.use)
    return LEAST if recogniser.Backend.RATE else LEAST_UNHEARD


def grouped(rows: Sequence[Row], hours: float | None, smallest: float = LEAST) -> list[list[Row]]:
    """Groups of about equal duration by header: longest first, each to the lightest group."""
    total = sum(seconds_of(row) for row in rows)
    size = hours * HOUR if hours else min(max(total / 64, smallest), HOUR)
    count = min(max(1, round(total / size)), max(len(rows), 1)) if rows else 0
    groups: list[list[Row]] = [[] for _ in range(count)]
    heap = [(0.0, 0, index) for index in range(count)]
    heapify(heap)
    for row in sorted(rows, key=lambda r: (-seconds_of(r), r["recording"])):
        load, items, index = heap[0]
        groups[index].append(row)
        heapreplace(heap, (load + seconds_of(row), items + 1, index))
    for group in groups:
        group.sort(key=lambda r: r["recording"])
    return groups


def seconds_of(row: Row) -> float:
    """Duration by header, else estimated from the size at 128 kbit/s; for balance only, s."""
    seconds = row["header_seconds"]
    return float(seconds) if seconds is not None else row["size"] / 16000
