"""Notes on the newest version, some tens of bytes a clip, so that the next run need not read it.

    OUT/manifests/package/published/version.json     which version, and its parts in order
    OUT/manifests/package/published/guards.json      size, time and inode of its files
    OUT/manifests/package/published/<sha256[:16]>.arrow
                                                     of a part: DIGESTS of its clips in order, and
                                                     its output shards, in each format too;
                                                     and what `ledger/ledger_index.py` keeps of
                                                     the ledger

These only save time: a missing or outdated one is made again from `utterances.parquet`.
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

from tasks import storage
from tasks.base.arrays import UInt64s
from tasks.base.json_types import DatasetJson
from tasks.base.schema import UTTERANCES_FILE
from tasks.formats import OutputShard
from tasks.publish import row_digests, seeded_hash
from tasks.publish.dataset import datacard
from tasks.publish.outcomes.shard_batches import PLACES, arrow_bytes
from tasks.publish.output_shards import layout, plan
from tasks.publish.output_shards.layout import PublishedShard
from tasks.storage import tables, versions
from tasks.storage.versions import Proved

DIGESTS = pa.schema({"high": pa.uint64(), "low": pa.uint64(), "content": pa.uint64()})
BATCH = 65536  # rows
EVERY = 30  # versions in which each file that is linked is read once
GUARDS = "guards.json"


class VersionNote(TypedDict, total=False):
    """version.json: what is noted of the newest version; empty if there is no valid note."""

    sealed: str
    seed: int
    parts: Sequence[Sequence[str]]  # name and file of each part of `utterances.parquet`
    ledger: Sequence[Sequence[str]]  # likewise
    firsts: Mapping[str, str]  # the first id of each split


class GuardsNote(TypedDict):
    """guards.json."""

    version: str
    guards: Mapping[str, str]  # of its files, by name


class TablePart(NamedTuple):
    """A part of `utterances.parquet` as it was published."""

    name: str  # of its file in the version
    file: str  # with the note on it; empty: there is none
    shards: list[PublishedShard]  # their first rows count from the version's


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
    """What is noted of the newest version; empty if that is gone, or of another version."""
    try:
        notes: VersionNote = storage.read_json(home(out) / "version.json")
    except (OSError, ValueError):
        return {}
    return notes if notes.get("sealed") == described[datacard.SEAL] else {}


def load(out: Path, newest: Path, described: DatasetJson, seed: int) -> Published:
    """The saved facts of the newest version, else those in its tables. RunError if the former are
    gone and a table is damaged."""
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
        shards = []
        for split, generation, count in json.loads(table.schema.metadata[b"groups"]):
            numbers[split] = numbers.get(split, -1) + 1
            shards.append(PublishedShard(split, numbers[split], generation, begin, count))
            begin += count
        table_parts.append(TablePart(name, file, shards))
        for column, pieces in columns.items():  # copies, so that the file's bytes go
            pieces.append(np.array(table[column].to_numpy(), np.uint64))
    high, low, content = (np.concatenate(columns.pop(name)) for name in DIGESTS.names)
    return Published(high, low, content, table_parts)


def read(out: Path, file: str) -> pa.Table:
    """The facts of a part; ValueError if they are damaged."""
    data = storage.read(storage.inside(home(out), file))
    if hashlib.sha256(data).hexdigest()[:16] != Path(file).stem:
        raise ValueError(f"{file} is damaged")
    return pa.ipc.open_file(pa.py_buffer(data)).read_all()


def shards(out: Path, file: str) -> list[OutputShard]:
    rows = json.loads(read(out, file).schema.metadata[b"shards"])
    return [plan.from_row(row) for row in rows]


def _made(part: Path, seed: int, proved: Proved) -> pa.Table:
    """The same as `read`, from the part itself in batches; without its output shards."""
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
    """The bytes of a part's file. `runs`: (split, generation, rows) of each output shard."""
    metadata = {
        "groups": json.dumps([list(run) for run in runs]),
        "shards": json.dumps([asdict(replace(shard, unchanged=())) for shard in shards]),
    }
    return arrow_bytes(digests.replace_schema_metadata(metadata))


def guards(out: Path, version: Path) -> Mapping[str, str]:
    """Guards of the version's files, by name, as of its publication. Do not change the result: it
    is parsed once a process."""
    try:
        noted = _parsed(storage.read(home(out) / GUARDS))
    except (OSError, ValueError):
        return {}
    return noted["guards"] if noted.get("version") == version.name else {}


_parsed: Callable[[bytes], GuardsNote] = lru_cache(maxsize=1)(json.loads)


def guard(guards: Mapping[str, str], version: Path, name: str) -> str:
    """The guard of one file, of those `guards`; empty if a new version has to read it: every file
    that is linked is read once in EVERY versions, so that bit rot is found."""
    again = (zlib.crc32(name.encode()) + versions.number(version)) % EVERY == 0
    return "" if again else guards.get(name, "")


def save_guards(out: Path, version: Path) -> None:
    """Note the guards of the newest version's files; only while holding OUT's lock."""
    noted: GuardsNote = {
        "version": version.name,
        "guards": dict(storage.of(version).guards(version)),
    }
    storage.write_atomic(home(out) / GUARDS, json.dumps(noted).encode())


def keep(out: Path, data: bytes) -> str:
    """Save the note on a part; returns the name of its file. Only while holding OUT's lock."""
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
    """Note the newest version: (name, file or its bytes) of each part, (name, file) of each of the
    ledger, the first id of each split. Only while holding OUT's lock."""
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
