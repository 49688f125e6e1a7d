"""Notes on the newest version, some tens of bytes a clip, so that the next run need not read it.

    OUT/manifests/package/published/version.json     which version, and its parts in order
    OUT/manifests/package/published/guards.json      size, time of change and inode of its files
    OUT/manifests/package/published/<sha256[:16]>.arrow
                                                     of a part: DIGESTS of its clips in order, and
                                                     its output shards in each format; or a note of
                                                     `ledger/ledger_index.py` on a part of the
                                                     ledger

They only save time: a missing or outdated note is made again from `utterances.parquet`.
"""

from __future__ import annotations

import hashlib
import json
import zlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, TypedDict

import numpy as np
import pyarrow as pa

from .. import storage
from ..base.arrays import UInt64s
from ..base.json_types import DatasetJson
from ..base.schema import UTTERANCES_FILE
from ..formats import OutputShard
from ..storage import tables, versions
from ..storage.versions import Proved
from . import row_digests, seeded_hash
from .dataset import datacard
from .outcomes.shard_batches import PLACES, arrow_bytes
from .output_shards import layout, plan
from .output_shards.layout import PublishedShard

DIGESTS = pa.schema({"high": pa.uint64(), "low": pa.uint64(), "content": pa.uint64()})
BATCH = 65536  # rows
EVERY = 30  # versions; within them, each linked file is read once
GUARDS = "guards.json"


class VersionNote(TypedDict, total=False):
    """version.json; empty if there is no valid note."""

    sealed: str  # the version's `datacard.SEAL`
    seed: int
    parts: Sequence[Sequence[str]]  # (name, note's file) of each part of `utterances.parquet`
    ledger: Sequence[Sequence[str]]  # the same for the ledger
    firsts: Mapping[str, str]  # the first id of each split


class GuardsNote(TypedDict):
    """guards.json."""

    version: str
    guards: Mapping[str, str]  # by name of a file


class TablePart(NamedTuple):
    """A part of the published `utterances.parquet`."""

    name: str  # path in the version
    file: str  # name of the file with its note; empty: none
    shards: list[PublishedShard]  # `first` counts from the start of the version


class Published(NamedTuple):
    """The newest version: DIGESTS of its clips in order, and its parts."""

    high: UInt64s
    low: UInt64s
    content: UInt64s
    parts: list[TablePart]

    @property
    def shards(self) -> list[PublishedShard]:
        return [shard for part in self.parts for shard in part.shards]


def home(out: Path) -> Path:
    return out / "manifests" / "package" / "published"


def noted(out: Path, described: DatasetJson) -> VersionNote:
    """The note on the newest version; empty if it is missing or of another version. `described`:
    its dataset.json."""
    try:
        notes: VersionNote = storage.read_json(home(out) / "version.json")
    except (OSError, ValueError):
        return {}
    return notes if notes.get("sealed") == described[datacard.SEAL] else {}


def load(out: Path, newest: Path, described: DatasetJson, seed: int) -> Published:
    """The newest version from its notes, or else from its tables. Raises RunError if a note is
    missing and a table is damaged. `seed`: of the ids' hashes."""
    notes = noted(out, described)
    with suppress(OSError, ValueError, KeyError, pa.ArrowException):
        if notes.get("seed") == seed:
            for name, _ in notes["parts"]:
                storage.inside(newest, name)
            return _assembled((name, file, read(out, file)) for name, file in notes["parts"])
    proved, parts = Proved(newest), tables.parts(newest / UTTERANCES_FILE)
    return _assembled((proved.name_of(part), "", _made(part, seed, proved)) for part in parts)


def _assembled(parts: Iterable[tuple[str, str, pa.Table]]) -> Published:
    begin, table_parts = 0, []
    columns: dict[str, list[UInt64s]] = {name: [] for name in DIGESTS.names}
    numbers: dict[str, int] = {}
    for name, file, table in parts:
        shards, first = [], begin
        for split, generation, count in json.loads(table.schema.metadata[b"groups"]):
            numbers[split] = numbers.get(split, -1) + 1
            place = split, numbers[split], generation, begin, count, name, begin - first
            shards.append(PublishedShard(*place))
            begin += count
        table_parts.append(TablePart(name, file, shards))
        for column, pieces in columns.items():  # copies, so that the file's bytes are freed
            pieces.append(np.array(table[column].to_numpy(), np.uint64))
    high, low, content = (np.concatenate(columns.pop(name)) for name in DIGESTS.names)
    return Published(high, low, content, table_parts)


def read(out: Path, file: str) -> pa.Table:
    """The note on a part, from its file; raises ValueError if it is damaged."""
    data = storage.read(storage.inside(home(out), file))
    if hashlib.sha256(data).hexdigest()[:16] != Path(file).stem:
        raise ValueError(f"{file} is damaged")
    return pa.ipc.open_file(pa.py_buffer(data)).read_all()


def shards(out: Path, file: str) -> list[OutputShard]:
    """The output shards of a part in all formats, from its note."""
    rows = json.loads(read(out, file).schema.metadata[b"shards"])
    return [plan.from_row(row) for row in rows]


def _made(part: Path, seed: int, proved: Proved) -> pa.Table:
    """The note on a part, made from the part itself; without its output shards in each format."""
    digests, places = [DIGESTS.empty_table()], []
    for table in tables.row_groups(part, opened=proved):
        places.append(table.select(["shard", "split", "generation"]))
        content = table.drop_columns([name for name in PLACES if name in table.column_names])
        for begin in range(0, len(table), BATCH):
            keys = seeded_hash.keys(str(seed), table["id"].slice(begin, BATCH).to_pylist())
            codes = row_digests.of_rows(content.slice(begin, BATCH))
            digests.append(pa.table([keys[:, 0], keys[:, 1], codes], schema=DIGESTS))
    shards = [[g.split, g.generation, g.clips] for g in layout.published_shards(places)]
    whole = pa.concat_tables(digests)
    return whole.replace_schema_metadata({"groups": json.dumps(shards)})


def tell(digests: pa.Table, runs: Sequence[Sequence[Any]], shards: Sequence[OutputShard]) -> bytes:
    """The note on a part, as the bytes of its file. `digests`: DIGESTS of its clips; `runs`:
    (split, generation, rows) of each output shard; `shards`: the output shards in all formats."""
    metadata = {
        "groups": json.dumps([list(run) for run in runs]),
        "shards": json.dumps([asdict(replace(shard, unchanged=())) for shard in shards]),
    }
    return arrow_bytes(digests.replace_schema_metadata(metadata))


def guards(out: Path, version: Path) -> Mapping[str, str]:
    """The guards of the version's files at its publication, by name; empty without a note. The
    result is cached: do not change it."""
    try:
        noted = _parsed(storage.read(home(out) / GUARDS))
    except (OSError, ValueError):
        return {}
    return noted["guards"] if noted.get("version") == version.name else {}


_parsed: Callable[[bytes], GuardsNote] = lru_cache(maxsize=1)(json.loads)


def guard(guards: Mapping[str, str], version: Path, name: str) -> str:
    """The guard of a file; empty if linking it must read it. Each linked file is read once in EVERY
    versions, so that bit rot is found."""
    is_due = (zlib.crc32(name.encode()) + versions.number(version)) % EVERY == 0
    return "" if is_due else guards.get(name, "")


def save_guards(out: Path, version: Path) -> None:
    """Save the guards of the newest version's files. Call it only while holding OUT's lock."""
    noted: GuardsNote = {
        "version": version.name,
        "guards": dict(storage.of(version).guards(version)),
    }
    storage.write_atomic(home(out) / GUARDS, json.dumps(noted).encode())


def keep(out: Path, data: bytes) -> str:
    """Save the note on a part; returns the name of its file. Call it only while holding OUT's
    lock."""
    name = f"{hashlib.sha256(data).hexdigest()[:16]}.arrow"
    storage.write_atomic(home(out) / name, data)
    return name


def save(
    out: Path,
    parts: Sequence[tuple[str, str | bytes]],
    ledger: Sequence[tuple[str, str]],
    firsts: Mapping[str, str],
    seal: str,
    seed: int,
) -> None:
    """Save the note on the newest version and remove notes of older ones. Call it only while
    holding OUT's lock. `parts`: (name, note's file or the note's bytes) of each part; `ledger`:
    (name, note's file) of each of its parts; `firsts`: the first id of each split."""
    names = [[name, keep(out, note) if isinstance(note, bytes) else note] for name, note in parts]
    noted: VersionNote = {
        "sealed": seal,
        "seed": seed,
        "parts": names,
        "ledger": ledger,
        "firsts": firsts,
    }
    storage.write_atomic(home(out) / "version.json", json.dumps(noted).encode())
    kept = {file for _, file in (*names, *ledger)}
    for path in storage.named_by_hash(home(out), ".arrow"):
        if path.name not in kept:
            storage.remove(path)
