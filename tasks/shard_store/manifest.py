"""Checkpoints: Parquet parts, complete once they have their names, and checked when read.

    manifests/<stage>/<shard>/<n>-<sha256[:16] of the file>.parquet     items of one shard
    audio/<shard>/<sha256[:16] of the file>.pcm                         int16 blobs of one part

A part is staged and published (`tasks.storage.local`), so it is complete under its final name. The
name holds the hash of the bytes, which reveals a flipped bit or a truncated file on reading.
Reading only reports such a part: a run, which holds OUT's lock, removes it (`repair`) and computes
its items again. Parts only add items, except in the shard stage, where the part with the highest
`n` is the shard. A file may hold several parts (`compaction.py`): its footer names them with their
rows, and each is read as if it were a separate file. If both exist, the file with more parts
counts.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypedDict

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from .. import storage
from ..base.arrays import Bools
from ..base.errors import PASSING, CorruptManifest
from ..base.logs import log
from ..base.schema import RECORDINGS, AnyRow
from ..storage import tables
from . import blobs

HOLDS: Final = "holds"  # footer key: (name, rows) of each part in the file
LISTINGS = 3  # attempts to list a shard whose files are being joined
SHARD = re.compile(r"shard-[0-9]{6,}")
PART = re.compile(r"[0-9]{6,}-[0-9a-f]{16}")
#: Files that a run commits and may remove, by their names in OUT.
OWN = re.compile(
    rf"manifests/(shard|filter|resample|transcribe)/{SHARD.pattern}/{PART.pattern}\.parquet"
    rf"|audio/{SHARD.pattern}/[0-9a-f]{{16}}\.pcm"
    r"|manifests/package/facts/[0-9a-f]{24}/facts\.json"
)


class Footer(TypedDict, total=False):
    stage: str
    shard: str
    measures: dict[str, str]  # stage filter: the recipe of each filter's measures
    recipe: str  # of the settings that made the part
    holds: list[tuple[str, int]]  # see HOLDS


@dataclass(frozen=True, slots=True)
class Part:
    """One commit: its rows and their metadata."""

    path: Path  # the file that holds it
    name: str  # the file's name at its commit, without the suffix
    table: pa.Table
    meta: Footer

    @property
    def number(self) -> int:
        return number_of(self.name)


def folder(out: Path, stage: str, shard: str) -> Path:
    return storage.inside(out / "manifests", f"{stage}/{shard}")


def files(out: Path, stage: str, shard: str) -> list[Path]:
    """The files of a shard's parts, sorted by name, and no other files."""
    names = storage.names(folder(out, stage, shard), ".parquet")
    return [path for path in names if PART.fullmatch(path.stem)]


def shards(out: Path) -> list[str]:
    names = storage.store_of(out).folders(out / "manifests" / "shard")
    return [name for name in names if SHARD.fullmatch(name)]


#: A reader's reaction to damage.
OnDamage = Callable[[Path, CorruptManifest], object]


def leave(out: Path, fault: CorruptManifest) -> None:
    """Warn only: for commands that do not write."""
    log.warning("%s; the next run removes it, and makes again what it held", fault)


def refuse(out: Path, fault: CorruptManifest) -> None:
    raise fault


def repair(out: Path, fault: CorruptManifest) -> bool:
    """Remove the damaged file, so that the run computes its contents again; returns whether it did.

    Only for a run that holds OUT's lock, and for its workers. Files of others stay.
    """
    name = fault.path.removeprefix(f"{out}/")
    if not OWN.fullmatch(name):
        log.warning("%s; it is no file of uttermill's, so it stays", fault)
        return False
    top, _, rest = name.partition("/")
    path = storage.inside(out / top, rest)
    if not storage.exists(path):  # already removed because of another row
        return False
    storage.remove(path)
    log.warning("%s; removed; its results are computed again", fault)
    return True


def repair_results(out: Path, fault: CorruptManifest) -> None:
    """`repair` for a stage, which computes missing results again. Raises the fault if it is in a
    listing, because a shard without a listing would seem empty, and only its sources know its
    recordings."""
    if is_listing(out, fault):
        raise fault
    repair(out, fault)


def is_listing(out: Path, fault: CorruptManifest) -> bool:
    return fault.path.startswith(f"{out}/manifests/shard/")


def commit(
    out: Path,
    stage: str,
    shard: str,
    rows: Sequence[AnyRow] | pa.Table,
    schema: pa.Schema,
    meta: Footer,
    number: int | None = None,
) -> Path:
    """Write rows as a new part of the shard, atomically and durably; returns its path.

    `number`: the part's position among the others; default: last.
    """
    if number is None:
        numbers = [number_of(path.name) for path in files(out, stage, shard)]
        number = max(numbers, default=-1) + 1
    footer = {b"uttermill": json.dumps({"stage": stage, "shard": shard, **meta}).encode()}
    schema = schema.with_metadata(footer)
    table = rows.cast(schema) if isinstance(rows, pa.Table) else pa.Table.from_pylist(rows, schema)
    # Small tables, read whole: dictionaries and statistics would only cost time.
    data = tables.parquet(table, compression="lz4", use_dictionary=False, write_statistics=False)
    name = f"{number:06d}-{hashlib.sha256(data).hexdigest()[:16]}.parquet"
    path = folder(out, stage, shard) / name
    storage.write_atomic(path, data)
    return path


def read(out: Path, stage: str, shard: str, damaged: OnDamage = leave) -> list[Part]:
    """All intact parts of a shard, oldest first; `damaged` is called for each other file."""
    opened, faults = list[list[Part]](), list[CorruptManifest]()
    paths: list[Path] | None = None
    for _ in range(1 + LISTINGS):
        if (now := files(out, stage, shard)) == paths:
            break
        paths, opened, faults = now, [], []  # after faults: files were joined meanwhile
        for path in paths:
            try:
                opened.append(open_parts(path))
            except CorruptManifest as fault:
                faults.append(fault)
        if not faults:
            break
    for damage in faults:
        damaged(out, damage)
    part_by_name: dict[str, Part] = {}  # each part once, from the file with the most parts
    for parts in sorted(opened, key=len, reverse=True):
        part_by_name = {part.name: part for part in parts} | part_by_name
    return sorted(part_by_name.values(), key=lambda part: (part.number, part.name))


def replaced(out: Path, name: str) -> bool:
    """Whether a committed file, named relative to OUT (one of OWN), is obsolete: another file holds
    its contents, or no row names it."""
    place = out / name
    shard, stage = place.parent.name, place.parent.parent.name
    if place.suffix == ".pcm":
        parts = read(out, "resample", shard, lambda *_: None)
        named = (part.table["blob"] for part in parts)
        return bool(parts) and not any(pc.any(pc.equal(blob, place.name)).as_py() for blob in named)
    parts = read(out, stage, shard, lambda *_: None)
    if stage == "shard":
        return any(part.number > number_of(place.name) for part in parts)
    return any(part.name == place.stem for part in parts)


def listings(out: Path) -> Iterator[pa.Table]:
    return (listed(out, shard) for shard in shards(out))


def listed(out: Path, shard: str, damaged: OnDamage = leave) -> pa.Table:
    """RECORDINGS of a shard, from the newest intact part of the shard stage; empty without one."""
    parts = read(out, "shard", shard, damaged)
    return parts[-1].table if parts else RECORDINGS.empty_table()


def listed_in(
    out: Path, shard: str, name: str, columns: Sequence[str], damaged: OnDamage = leave
) -> pa.Table:
    """These columns of `listed`, given the file name of the newest part from a listing of OUT."""
    try:
        return open_parts(folder(out, "shard", shard) / name, columns)[-1].table
    except CorruptManifest:
        return listed(out, shard, damaged)


def recordings(out: Path, shard: str) -> list[str]:
    names: list[str] = listed(out, shard)["recording"].to_pylist()
    return names


def number_of(name: str) -> int:
    """The number of a part, from its name or that of its file."""
    head = name.split("-", 1)[0]
    return int(head) if head.isdigit() else -1


# A part never changes under its name, so a process reads and checks each one once.
PARTS_HELD = 64  # files
_parts: dict[Path, list[Part]] = {}


def open_parts(path: Path, columns: Sequence[str] | None = None) -> list[Part]:
    """The parts of a file, at least with these columns, after checking the hash in its name. Raises
    CorruptManifest if it differs or the file is missing.

    Pass a path that was just listed: on object stores, a cached file is not looked up again.
    """
    cached, store = _parts.get(path), storage.store_of(path)
    if cached is not None and (store.remote or store.exists(path)):
        return cached
    try:
        data = store.read(path)
    except FileNotFoundError as error:
        raise CorruptManifest(f"{path.name} vanished while it was read", str(path)) from error
    named = path.stem.rsplit("-", 1)[-1]
    if hashlib.sha256(data).hexdigest()[:16] != named:
        raise CorruptManifest(f"manifest {path} does not match the hash in its name", str(path))
    try:  # somebody may have given other bytes the right name
        table = tables.from_parquet(data, columns)
        meta: Footer = json.loads((table.schema.metadata or {})[b"uttermill"])
        parts, row = list[Part](), 0
        for name, rows in meta.pop(HOLDS, [(path.stem, len(table))]):
            parts.append(Part(path, name, table.slice(row, rows), meta))
            row += rows
        sound = blobs.sound_places(table) and all(PART.fullmatch(part.name) for part in parts)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, pa.ArrowException) as error:
        raise CorruptManifest(f"manifest {path} cannot be read: {error}", str(path)) from error
    if not sound:
        raise CorruptManifest(f"manifest {path} names files that no run writes", str(path))
    if columns is None:
        if len(_parts) >= PARTS_HELD:
            _parts.clear()
        _parts[path] = parts
    return parts


# Stored failures that are not the item's fault (`errors.PASSING`).
#
# They count in the version of their run. The next run treats the item as one without a result, and
# its new result replaces the failure.


#: The column that identifies a row's item, by stage.
KEYS = {"filter": "cut", "resample": "audio", "transcribe": "transcript"}


def passing(table: pa.Table) -> Bools:
    """Which rows are such failures; bool [rows]. `table`: with the column `error_code`."""
    code = table["error_code"]
    if code.null_count == len(code):
        return np.zeros(len(code), bool)
    flags: Bools = pc.is_in(code, pa.array(PASSING)).to_numpy()
    return flags


def last_results(stage: str, tables: Sequence[pa.Table], again: bool = False) -> list[pa.Table]:
    """Tables of a stage without such rows if a later result of the same item exists; `again`: with
    none of them, for callers that look for missing items."""
    masks = [passing(table) for table in tables]
    if not any(mask.any() for mask in masks):
        return [*tables]
    if again:
        return [table.filter(pa.array(~mask)) for table, mask in zip(tables, masks, strict=True)]
    standing_tables: list[pa.Table] = []
    later = set[str]()
    for table, mask in zip(reversed(tables), reversed(masks), strict=True):
        stands = np.ones(len(table), bool)
        names = table[KEYS[stage]].to_pylist()
        for row in reversed(range(len(table))):
            stands[row] = not (mask[row] and names[row] in later)
            later.add(names[row])
        standing_tables.insert(0, table.filter(pa.array(stands)))
    return standing_tables
