"""Pieces: what is written into a version, format by format, and checked; one worker call each.

In the staging folder, until the version is published, lies `.plan/`:

    rows.arrow     all rows in the order of the groups: a record batch for each group
    pieces.arrow   a record batch for each piece, so that a worker is told only its number
    hashes/<n>     what is known of the files of piece n: by `write`, then by `check`

Formats know local folders only: on an object store a worker writes a piece into one of its own and
puts it, and checks what it got back.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pyarrow as pa

from tasks import plugins, storage
from tasks.checkpoints import blobs, manifest
from tasks.checkpoints.manifest import Row
from tasks.dataset import datacard, versions
from tasks.errors import ConfigError, CorruptManifest, RunError
from tasks.formats import Hashes, Piece, Published
from tasks.job import Job
from tasks.packaging import layout
from tasks.packaging.layout import Group
from tasks.schema import UTTERANCES
from tasks.settings import Plugin
from tasks.storage import tables

log = logging.getLogger("uttermill")

# where a planned row's PCM lies; not published
SOURCE_COLUMNS = [("work_shard", pa.string()), ("blob", pa.string()), ("blob_offset", pa.int64())]
READ = ("sha256", "num_samples", *(name for name, _ in SOURCE_COLUMNS))  # to read and to verify it
LAID_OUT = ("shard", "generation", "offset")  # columns that the layout fills in
PLAN = ".plan"
PIECE = pa.schema(
    [("format", pa.string()), ("split", pa.string()), ("number", pa.int64()),
     ("group", pa.int64()), ("clips", pa.int64()), ("files", pa.list_(pa.string())),
     ("same", pa.list_(pa.struct([("path", pa.string()), ("sha256", pa.string()),
                                  ("size", pa.int64())])))]
)  # fmt: skip


def plan(
    job: Job, staging: Path, groups: list[Group], rows: pa.Table, before: Before | None
) -> pa.Table:
    """Write the plan of a version; returns its `utterances.parquet`."""
    (staging / PLAN / "hashes").mkdir(parents=True)
    published = rows.drop_columns([name for name, _ in SOURCE_COLUMNS])
    pieces: list[Piece] = []
    extra: dict[str, pa.Array] = {}
    for plugin in job.package.formats:
        found, derived = _of_format(plugin, groups, published, before)
        pieces += found
        extra |= {_hidden(plugin.use, name): values for name, values in derived.items()}
    for name, values in extra.items():
        rows = rows.append_column(name, values)
    first = [piece for piece in pieces if piece.format == job.package.formats[0].use]
    laid_out = _laid_out(job, groups, first, rows)
    ends = np.cumsum([len(group.rows) for group in groups]).tolist()
    batches = (
        laid_out.slice(low, high - low) for low, high in zip([0, *ends[:-1]], ends, strict=True)
    )
    _save(staging / PLAN / "rows.arrow", laid_out.schema, batches)
    told = (pa.Table.from_pylist([_as_row(piece)], schema=PIECE) for piece in pieces)
    _save(staging / PLAN / "pieces.arrow", PIECE, told)
    return laid_out.drop_columns([*(name for name, _ in SOURCE_COLUMNS), *extra])


class Before:
    """The last version: its folder, dataset.json and utterances."""

    def __init__(self, home: Path, described: dict[str, Any], rows: pa.Table) -> None:
        self.home, self.described, self.rows = home, described, rows

    def holds(self, plugin: Plugin) -> bool:
        """Whether it has the format, of this release, with these settings."""
        module = plugins.load("formats", plugin.use)
        if self.described.get("formats", {}).get(plugin.use) != module.VERSION:
            return False
        try:
            then = datacard.of_plugin("formats", datacard.formats_of(self.described)[plugin.use])
        except ConfigError:  # a setting that this release does not know
            return False
        return then == datacard.of_plugin("formats", plugin)

    def files(self, paths: Iterable[str]) -> tuple[Published, ...]:
        """These files of it; empty when one is not there."""
        known: Mapping[str, Any] = self.described["files"]
        wanted = list(paths)
        if any(path not in known for path in wanted):
            return ()
        return tuple(
            Published(str(self.home / path), known[path]["sha256"], known[path]["bytes"])
            for path in wanted
        )


def _of_format(
    plugin: Plugin, groups: list[Group], published: pa.Table, before: Before | None
) -> tuple[list[Piece], dict[str, pa.Array]]:
    """The pieces of one format, with the files of the last version where they can stay; and the
    format's derived columns."""
    module, settings = plugins.resolve("formats", plugin)
    now, derived = with_derived(module, settings, published)
    then = None
    # An older release's rows may lack what the derived columns follow from.
    other = set(published.column_names) ^ set(before.rows.column_names) if before else set()
    if before and before.holds(plugin) and not other & set(module.COLUMNS):
        then, _ = with_derived(module, settings, before.rows)
    old_groups = layout.groups_of(then) if then is not None else []
    places = {(split, number): (first, count) for split, number, first, count in old_groups}
    now = seen_by(module, now)
    pieces = []
    for index, (group, old) in enumerate(
        zip(groups, layout.same_as(groups, now, then, tuple(now.column_names)), strict=True)
    ):
        rows = now.take(group.rows)
        files = tuple(module.files(group.split, group.number, rows, settings))
        same: tuple[Published, ...] = ()
        if old is not None and (old == group.number or not getattr(module, "NUMBERED", False)):
            assert then is not None
            assert before is not None
            rows = seen_by(module, then).slice(*places[group.split, old])
            same = before.files(module.files(group.split, old, rows, settings))
        size = len(group.rows)
        pieces.append(Piece(plugin.use, group.split, group.number, index, size, files, same))
    return pieces, derived


def with_derived(
    module: ModuleType, settings: Any, table: pa.Table
) -> tuple[pa.Table, dict[str, pa.Array]]:
    """The table with the columns that a format derives from it, and these alone."""
    columns = module.derived(table, settings) if hasattr(module, "derived") else {}
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table, columns


def seen_by(module: ModuleType, table: Any, *more: str) -> Any:
    """The columns that a format's files depend on; a measure that is not taken is no column."""
    wanted = dict.fromkeys((*module.COLUMNS, *more))
    return table.select([name for name in wanted if name in table.schema.names])


def _hidden(use: str, column: str) -> str:
    """Name in the plan of a derived column: two formats may have columns of one name."""
    return f"{use}:{column}"


def _laid_out(job: Job, groups: list[Group], pieces: list[Piece], rows: pa.Table) -> pa.Table:
    """All rows in the order of the groups, with their places in the first format."""
    module, settings = plugins.resolve("formats", job.package.formats[0])
    table = rows.take(np.concatenate([group.rows for group in groups]))
    shards, generations, offsets = [], [], []
    at = 0
    for group, piece in zip(groups, pieces, strict=True):
        shards += [piece.path] * piece.clips
        generations += [group.generation] * piece.clips
        if hasattr(module, "offsets"):
            offsets.append(module.offsets(table.slice(at, piece.clips), settings))
        at += piece.clips
    places = {
        "shard": pa.array(shards, pa.string()),
        "generation": pa.array(generations, pa.int32()),
        "offset": pa.array(np.concatenate(offsets)) if offsets else pa.nulls(at, pa.int64()),
    }
    fields = {field.name: field for field in [*UTTERANCES, *table.schema]}
    schema = pa.schema([*UTTERANCES, *[f for n, f in fields.items() if n not in UTTERANCES.names]])
    columns = [places[n] if n in places else table[n] for n in schema.names]
    return pa.table(columns, schema=schema)


def _save(path: Path, schema: pa.Schema, parts: Iterable[pa.Table]) -> None:
    """An Arrow file with a record batch for each table: a worker reads no other rows."""
    with tables.writing(path, schema) as out:
        for table in parts:
            for batch in table.combine_chunks().to_batches():
                out.write_batch(batch)


def _load(path: Path, number: int) -> pa.RecordBatch:
    with tables.arrow(path) as file:
        return pa.ipc.open_file(file).get_batch(number)


def _as_row(piece: Piece) -> Row:
    return {**asdict(piece), "same": [each._asdict() for each in piece.same]}


def _as_piece(row: Row) -> Piece:
    same = tuple(Published(**each) for each in row["same"])
    return Piece(**{**row, "files": tuple(row["files"]), "same": same})


def pieces_of(staging: Path) -> list[Piece]:
    """What is to be written, in order."""
    with tables.arrow(staging / PLAN / "pieces.arrow") as file:
        return [_as_piece(row) for row in pa.ipc.open_file(file).read_all().to_pylist()]


def piece_of(staging: Path, number: int) -> Piece:
    return _as_piece(_load(staging / PLAN / "pieces.arrow", number).to_pylist()[0])


def _rows(staging: Path, piece: Piece, *more: str) -> list[Row]:
    batch = _load(staging / PLAN / "rows.arrow", piece.group)
    mark = _hidden(piece.format, "")
    own = batch.rename_columns([name.removeprefix(mark) for name in batch.schema.names])
    return rows_for(plugins.load("formats", piece.format), own, *more)


def rows_for(module: ModuleType, table: pa.Table | pa.RecordBatch, *more: str) -> list[Row]:
    """Rows as `write` and `check` get them."""
    rows: list[Row] = seen_by(module, table, "shard", "offset", *more).to_pylist()
    return rows


def _format(job: Job, piece: Piece) -> tuple[ModuleType, Any]:
    plugin = next(plugin for plugin in job.package.formats if plugin.use == piece.format)
    return plugins.resolve("formats", plugin)


def write(job: Job, staging: Path, number: int) -> bool:
    """On a worker: write a piece, or link the last version's files when all are sound and the
    same. Returns whether they were linked. CorruptManifest when a blob is damaged."""
    piece = piece_of(staging, number)
    _unlink(staging, piece)
    if piece.same:
        if all(versions.link(storage.place(old.path), staging / new, old.sha256, old.size)
               for old, new in zip(piece.same, piece.files, strict=True)):  # fmt: skip
            return True
        log.warning(
            "%s is damaged or gone; the new version gets a new one",
            piece.same[0].path if len(piece.same) == 1 else f"a file of {piece.same[0].path}",
        )
        for path in piece.files:  # sound copies too: of another release's encoder, perhaps
            storage.remove(staging / path)

    module, settings = _format(job, piece)
    rows = _rows(staging, piece, *READ)
    proved = not getattr(module, "PROVES_SAMPLES", False)
    hashes: Hashes = {}
    with storage.of(staging).writing(staging) as home, blobs.reading(job.out, rows, proved) as pcm:
        module.write(piece, rows, pcm, home, settings, hashes)
    _note(staging, number, hashes)
    return False


def _unlink(staging: Path, piece: Piece) -> None:
    """A dead worker's, and perhaps links into a published version: never written through. An
    object is whole if it is there at all, and nothing is put over it."""
    for path in piece.files:
        storage.of(staging).detach(staging / path)


def check(job: Job, staging: Path, number: int) -> None:
    """On a worker: reopen a piece that was written, decode everything, note its hashes.
    CorruptManifest when the fault was a blob's, which `write` took as it was."""
    piece = piece_of(staging, number)
    if faults := _faults(job, staging, number, piece):
        _prove(job, _rows(staging, piece, *READ))
        log.warning("%s; it is written once more", "; ".join(faults[:3]))
        for path in piece.files:
            storage.remove(staging / path)
        write(job, staging, number)
        faults = _faults(job, staging, number, piece)
    if faults:
        raise RunError(f"what was written does not read back: {'; '.join(faults[:3])}")


def _faults(job: Job, staging: Path, number: int, piece: Piece) -> list[str]:
    """Of a piece that is read back; its hashes are noted where there are none."""
    module, settings = _format(job, piece)
    with storage.of(staging).reading(staging, piece.files) as home:
        hashes = _noted(staging, number)
        faults: list[str] = module.check(piece, _rows(staging, piece), home, settings, hashes)
        found = {path: hashes.get(path) or storage.hashed(home / path) for path in piece.files}
    if not faults:
        _note(staging, number, found)
    return faults


def _prove(job: Job, rows: list[Row]) -> None:
    """CorruptManifest when blobs do not hold what the rows name; all of them are set aside."""
    damaged: CorruptManifest | None = None
    with blobs.reading(job.out, rows) as pcm:
        for row in rows:
            try:
                pcm(row)
            except CorruptManifest as fault:
                manifest.discard(storage.place(fault.path))
                damaged = damaged or fault
    if damaged:
        raise damaged


def _note(staging: Path, number: int, hashes: Hashes) -> None:
    """Only this piece's worker writes it: no other reads it before that has answered."""
    path, data = staging / PLAN / "hashes" / str(number), json.dumps(hashes).encode()
    storage.of(staging).write(path, data)


def _noted(staging: Path, number: int) -> Hashes:
    noted = json.loads(storage.read(staging / PLAN / "hashes" / str(number)))
    return {path: (sha256, size) for path, (sha256, size) in noted.items()}


@contextmanager
def finished(job: Job, staging: Path) -> Iterator[tuple[Path, Hashes]]:
    """Remove the plan and write the formats' lists: a folder with these and the version's tables
    (the staging folder, where it is local), and the hashes of every file of a piece."""
    pieces = pieces_of(staging)
    store = storage.of(staging)
    hashes = _hashes(pieces, store.read_all(staging / PLAN / "hashes"))
    store.remove_tree(staging / PLAN)
    chosen = [(plugin.use, *plugins.resolve("formats", plugin)) for plugin in job.package.formats]
    read = [path.name for path in store.names(staging)]
    sizes = dict[str, int | None].fromkeys(hashes)
    for use, module, _ in chosen:
        paths = [path for piece in pieces if piece.format == use for path in piece.files]
        back: tuple[str, ...] = getattr(module, "READ_BACK", ())
        read += [path for path in paths if path.endswith(back)]
        if getattr(module, "SIZED", False):
            sizes |= {path: hashes[path][1] for path in paths}
    with versions.finishing(staging, read, sizes, job.scratch) as home:
        for use, module, settings in chosen:
            module.finish([p for p in pieces if p.format == use], home, settings)
        yield home, hashes


def _hashes(pieces: list[Piece], noted: Mapping[str, bytes]) -> Hashes:
    hashes: Hashes = {}
    for number, piece in enumerate(pieces):
        if found := noted.get(str(number)):
            hashes |= {path: tuple(each) for path, each in json.loads(found).items()}
        else:
            old = zip(piece.files, piece.same, strict=True)
            hashes |= {path: (each.sha256, each.size) for path, each in old}
    return hashes
