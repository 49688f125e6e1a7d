"""The plan of a version, and what workers do by it: link or write output shards, and read them
back.

The plan is kept in `.plan/` of the staging folder until the version is published, so that a worker
call needs only the number of its shard. Each row group of `utterances.parquet` has a part of its
own:

    <part>/rows.arrow     the columns of its rows that formats read: a record batch for each tar
    <part>/shards.json    its output shards, in every format
    hashes/<n>            digests of the files of shard n, written by `write`, then by `check`

What the newest version has, too, is linked, unread if it has its guard (size, time of change and
inode) of OUT/manifests/package/guards.json, where they are noted at publication. Formats work in
local folders only: on an object store, a worker writes a shard into a local folder and uploads it,
and downloads it again to check it.
"""

import json
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import chain, pairwise
from pathlib import Path

import numpy as np
import pyarrow as pa
from pydantic import TypeAdapter

from ... import plugins, storage
from ...base.errors import CorruptManifest, RunError
from ...base.logs import log
from ...base.schema import UTTERANCES, ClipRow
from ...formats import PLACE, Hashes, Output, OutputShard
from ...plugins.contracts import Format
from ...settings import StageSettings
from ...settings.job import Job
from ...shard_store import blobs, manifest
from ...storage import publication, tables, versions
from ..published_columns import PCM_COLUMNS, sources_of
from . import format_shards
from .format_shards import PreviousVersion
from .layout import ShardClips

PLAN, HASHES, ROWS, SHARDS = ".plan", "hashes", "rows.arrow", "shards.json"
PART_BITS = 24  # low bits of a shard's number: its index in its part
GUARDS = "manifests/package/guards.json"
EVERY = 30  # versions; within them, each linked file is read once, so that bit rot is found
_SHARDS, _HASHES = TypeAdapter(list[OutputShard]), TypeAdapter(Hashes)


def save(
    job: Job,
    home: Path,
    shards: Sequence[ShardClips],
    rows: pa.Table,
    previous: PreviousVersion | None = None,
    same: Mapping[str, Sequence[int | None]] | None = None,
    part: int = 0,
) -> pa.Table:
    """Write the plan of a part into a local folder; returns its rows of `utterances.parquet`.

    `rows`: rows of the shards, in order, perhaps with PLACE; `same`: `format_shards.same_as`, by
    format.
    """
    folder = _folder(home, part)
    folder.mkdir(parents=True)
    source_columns = [*sources_of(job)]
    published = rows.drop_columns(source_columns)
    by_format = [
        format_shards.of_format(plugin, shards, published, previous, (same or {}).get(plugin.use))
        for plugin in job.package.formats
    ]
    laid_out = _laid_out(job, shards, by_format[0], rows)
    seen = {"id", *PCM_COLUMNS}  # what `_rows` passes to formats, and where PCM is stored
    for plugin in job.package.formats:
        module = plugins.FORMATS.load(plugin.use)
        seen |= {*format_shards.seen(module, laid_out.schema.empty_table()).column_names}
    read = laid_out.select([name for name in laid_out.column_names if name in seen])
    [whole] = read.combine_chunks().to_batches()  # once: for each of many batches it takes long
    ends = np.cumsum([len(shard.rows) for shard in shards]).tolist()
    with tables.writing(folder / ROWS, read.schema) as out:
        for low, high in pairwise([0, *ends]):
            out.write_batch(whole.slice(low, high - low))
    (folder / SHARDS).write_bytes(_SHARDS.dump_json([*chain.from_iterable(by_format)]))
    places = {PLACE} & {*rows.column_names}
    return laid_out.drop_columns([*source_columns, *places])


def _folder(home: Path, part: int) -> Path:
    return home / PLAN / f"{part:05d}"


def number_of(part: int, index: int) -> int:
    """The number of an output shard among all: its part's number, then its index in it."""
    return part << PART_BITS | index


def part_of(number: int) -> int:
    return number >> PART_BITS


def _laid_out(
    job: Job, shards: Sequence[ShardClips], of_format: list[OutputShard], table: pa.Table
) -> pa.Table:
    """The rows with their places (LAYOUT_COLUMNS) in the output shards of the first format."""
    module, settings = plugins.FORMATS.resolve(job.package.formats[0])
    paths, generations, offsets = [], [], []
    begin = 0
    for clips, shard in zip(shards, of_format, strict=True):
        paths += [shard.path] * shard.clips
        generations += [clips.generation] * shard.clips
        if module.offsets:
            offsets.append(module.offsets(table.slice(begin, shard.clips), settings))
        begin += shard.clips
    places = {
        "shard": pa.array(paths, pa.string()),
        "generation": pa.array(generations, pa.int32()),
        "offset": pa.array(np.concatenate(offsets)) if offsets else pa.nulls(begin, pa.int64()),
    }
    schema = in_order(table.schema)
    columns = [places[n] if n in places else table[n] for n in schema.names]
    return pa.table(columns, schema=schema)


def in_order(schema: pa.Schema) -> pa.Schema:
    fields = {field.name: field for field in schema}
    every = [fields.pop(field.name, field) for field in UTTERANCES]
    return pa.schema([*every, *fields.values()])


def parts(staging: Path) -> list[int]:
    return sorted(
        int(name) for name in storage.store_of(staging).folders(staging / PLAN) if name.isdigit()
    )


def shards_of(staging: Path, part: int) -> list[OutputShard]:
    return _SHARDS.validate_json(storage.read(_folder(staging, part) / SHARDS))


def numbered(staging: Path) -> dict[int, OutputShard]:
    return {
        number_of(part, index): shard
        for part in parts(staging)
        for index, shard in enumerate(shards_of(staging, part))
    }


def _rows(staging: Path, number: int, one: OutputShard, *more: str) -> list[ClipRow]:
    """The rows of an output shard as its format gets them, with `more` columns: a record batch."""
    with tables.arrow(_folder(staging, part_of(number)) / ROWS) as file:
        batch = pa.ipc.open_file(file).get_batch(one.group)
    return format_shards.rows_for(plugins.FORMATS.load(one.format), batch, *more)


def save_hashes(staging: Path, number: int, hashes: Hashes) -> None:
    """Record the digests of a shard's files. Only the shard's own worker call writes them, and they
    are read only after it has returned."""
    path = staging / PLAN / HASHES / str(number)
    storage.store_of(staging).write(path, _HASHES.dump_json(hashes))


def load_hashes(staging: Path, number: int) -> Hashes:
    return _HASHES.validate_json(storage.read(staging / PLAN / HASHES / str(number)))


def _all_hashes(staging: Path, shards: Mapping[int, OutputShard]) -> Hashes:
    """Digests of the files of all shards; for linked files, those of the previous version."""
    saved = storage.store_of(staging).read_all(staging / PLAN / HASHES)
    hashes: Hashes = {}
    for number, shard in shards.items():
        if data := saved.get(str(number)):
            hashes |= _HASHES.validate_json(data)
        else:
            linked = zip(shard.files, shard.unchanged, strict=True)
            hashes |= {path: (old.sha256, old.size) for path, old in linked}
    return hashes


# What workers do.


def link(job: Job, staging: Path, part: int) -> list[int]:
    """On a worker: link those output shards of a part that the newest version has, too. Returns the
    numbers of the others, which must be written: also those that are missing or damaged there."""
    newest = versions.newest(job.out)
    guards = _guards(job.out, newest) if newest else {}
    return [
        number_of(part, index)
        for index, shard in enumerate(shards_of(staging, part))
        if newest is None or not shard.unchanged or not _linked(staging, shard, newest, guards)
    ]


def _guards(out: Path, version: Path) -> Mapping[str, str]:
    """The guards of the version's files at its publication, by name; empty without a note."""
    try:
        noted = storage.read_json(out / GUARDS)
    except (OSError, ValueError):
        return {}
    guards: Mapping[str, str] = noted["guards"] if noted.get("version") == version.name else {}
    return guards


def save_guards(out: Path, version: Path) -> None:
    """Save the guards of the newest version's files. Call it only while holding OUT's lock."""
    guards = dict(storage.store_of(version).guards(version))
    noted = json.dumps({"version": version.name, "guards": guards})
    storage.write_atomic(out / GUARDS, noted.encode())


def _linked(staging: Path, shard: OutputShard, newest: Path, guards: Mapping[str, str]) -> bool:
    """Link the files of a shard; False if one differs from what was published."""
    for old, new in zip(shard.unchanged, shard.files, strict=True):
        name = old.path.removeprefix(f"{newest}/")
        is_due = (zlib.crc32(name.encode()) + versions.number(newest)) % EVERY == 0
        guard = "" if is_due else guards.get(name, "")
        if not storage.store_of(staging).link(
            storage.place(old.path), staging / new, old.sha256, old.size, guard
        ):
            break
    else:
        return True
    path = shard.unchanged[0].path
    log.warning(
        "%s is damaged or gone; it is written again",
        path if len(shard.unchanged) == 1 else f"a file of {path}",
    )
    return False


def write(job: Job, staging: Path, number: int) -> None:
    """On a worker: write a shard, read it back, decode everything and record its digests. A faulty
    shard is written once more; RunError if that is faulty, too. CorruptManifest if a blob is
    damaged, after removing all damaged ones of the shard."""
    part = part_of(number)
    shard = shards_of(staging, part)[number - number_of(part, 0)]
    _write(job, staging, number, shard)
    if faults := _faults(job, staging, number, shard):
        log.warning("%s; it is written once more", "; ".join(faults[:3]))
        for path in shard.files:
            storage.remove(staging / path)
        _write(job, staging, number, shard)
        faults = _faults(job, staging, number, shard)
    if faults:
        raise RunError(f"what was written does not read back: {'; '.join(faults[:3])}")


def _write(job: Job, staging: Path, number: int, shard: OutputShard) -> None:
    # A file that a dead worker left may be a link into a published version.
    for path in shard.files:
        storage.store_of(staging).detach(staging / path)
    module, settings = _format(job, shard)
    rows = _rows(staging, number, shard, "id", *PCM_COLUMNS)
    clips = [clip for row in rows for clip in (row, *blobs.beside(row), *blobs.sides(row))]
    try:
        with (
            storage.store_of(staging).writing(staging) as home,
            blobs.reading(job.out, clips) as pcm,
        ):
            out = Output(home)
            module.write(shard, rows, pcm, out, settings)
    except CorruptManifest:
        with blobs.reading(job.out, clips) as pcm:  # removes all that do not hold their PCM
            for clip in clips:
                try:
                    pcm(clip)
                except CorruptManifest as fault:
                    manifest.repair(job.out, fault)
        raise
    save_hashes(staging, number, out.hashes)


def _faults(job: Job, staging: Path, number: int, shard: OutputShard) -> list[str]:
    """The faults of a shard; if there are none, the digests of its files are recorded."""
    module, settings = _format(job, shard)
    with storage.store_of(staging).reading(staging, shard.files) as home:
        out = Output(home, load_hashes(staging, number))
        faults: list[str] = module.check(shard, _rows(staging, number, shard), out, settings)
        hashes = {path: out.hashes.get(path) or storage.hashed(home / path) for path in shard.files}
    if not faults:
        save_hashes(staging, number, hashes)
    return faults


def _format(job: Job, shard: OutputShard) -> tuple[Format, StageSettings]:
    plugin = next(plugin for plugin in job.package.formats if plugin.use == shard.format)
    return plugins.FORMATS.resolve(plugin)


@contextmanager
def finished(job: Job, staging: Path, kept: Sequence[str]) -> Iterator[tuple[Path, Hashes]]:
    """Remove the plan and write the formats' lists. Yields a local folder with the lists and the
    version's tables (the staging folder itself unless it is remote), and the digests of all shard
    files. `kept`: files of the version's tables."""
    every = numbered(staging)
    shards, hashes = [*every.values()], _all_hashes(staging, every)
    store = storage.store_of(staging)
    store.remove_tree(staging / PLAN)
    formats = [(plugin.use, *plugins.FORMATS.resolve(plugin)) for plugin in job.package.formats]
    wanted = list(dict.fromkeys([*kept, *(path.name for path in store.names(staging))]))
    sizes = dict[str, int | None].fromkeys(hashes)
    for use, module, _ in formats:
        paths = [path for shard in shards if shard.format == use for path in shard.files]
        wanted += [path for path in paths if path.endswith(module.READ_BACK)]
        if module.SIZED:
            sizes |= {path: hashes[path][1] for path in paths}
    with publication.publisher(staging).finishing(staging, wanted, sizes, job.scratch) as home:
        for use, module, settings in formats:
            module.finish([shard for shard in shards if shard.format == use], home, settings)
        yield home, hashes
