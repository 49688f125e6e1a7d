"""Notes on the newest version, some tens of bytes a clip, so that the next run need not read it.

    OUT/manifests/package/published/version.json     which version, and its parts in order
    OUT/manifests/package/published/guards.json      size, time and inode of its files
    OUT/manifests/package/published/<sha256[:16]>.arrow
                                                     of a part: DIGESTS of its clips in order, and
                                                     its groups and output shards; and what
                                                     `ledger_notes.py` keeps of the ledger

These only save time: a missing or outdated one is made again from `utterances.parquet`.
"""

from __future__ import annotations

import hashlib
import io
import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks import storage
from tasks.checkpoints.manifest import Row
from tasks.dataset import datacard, versions
from tasks.dataset.proved import Proved
from tasks.formats import OutputShard
from tasks.json_types import JsonObject
from tasks.packaging import canonical, plan, seeded
from tasks.packaging.decided import PLACES
from tasks.packaging.layout import PublishedGroup
from tasks.schema import UTTERANCES_FILE
from tasks.storage import tables

DIGESTS = pa.schema({"high": pa.uint64(), "low": pa.uint64(), "content": pa.uint64()})
BATCH = 65536  # rows
EVERY = 30  # versions in which each file that is linked is read once
GUARDS = "guards.json"

Codes = NDArray[np.uint64]


class TablePart(NamedTuple):
    """A part of `utterances.parquet` as it was published."""

    name: str  # of its file in the version
    file: str  # with the note on it; empty: there is none
    groups: list[PublishedGroup]  # their first rows count from the version's


class Published(NamedTuple):
    """The newest version: DIGESTS of its clips in order, and its parts."""

    high: Codes
    low: Codes
    content: Codes
    parts: list[TablePart]

    @property
    def groups(self) -> list[PublishedGroup]:
        return [group for part in self.parts for group in part.groups]


def home(out: Path) -> Path:
    return out / "manifests" / "package" / "published"


def load(out: Path, newest: Path, described: JsonObject, seed: int) -> Published:
    """The saved facts of the newest version, else those in its tables. RunError if the former are
    gone and a table is damaged."""
    try:
        known = json.loads(storage.read(home(out) / "version.json"))
        if known["sealed"] == described[datacard.SEAL] and known["seed"] == seed:
            return _assembled((name, file, read(out, file)) for name, file in known["parts"])
    except (OSError, ValueError, KeyError, pa.ArrowException):
        pass
    path = newest / UTTERANCES_FILE
    found, proved = [], Proved(newest)
    for part in tables.parts(path):
        name = path.name if part == path else f"{path.name}/{part.name}"
        found.append((name, "", _made(part, seed, proved)))
    return _assembled(found)


def firsts(out: Path, described: JsonObject) -> dict[str, str]:
    """The first id of each split of the newest version, in the order of ids; empty if the notes are
    gone."""
    try:
        known = json.loads(storage.read(home(out) / "version.json"))
    except (OSError, ValueError):
        return {}
    found: dict[str, str] = known.get("firsts", {})
    return found if known.get("sealed") == described[datacard.SEAL] else {}


def _assembled(parts: Iterable[tuple[str, str, pa.Table]]) -> Published:
    at, found = 0, []
    columns: dict[str, list[Codes]] = {name: [] for name in DIGESTS.names}
    numbers: dict[str, int] = {}
    for name, file, table in parts:
        groups = []
        for split, generation, count in json.loads(table.schema.metadata[b"groups"]):
            numbers[split] = numbers.get(split, -1) + 1
            groups.append(PublishedGroup(split, numbers[split], generation, at, count))
            at += count
        found.append(TablePart(name, file, groups))
        for column, held in columns.items():  # copies, so that the file's bytes go
            held.append(np.array(table[column].to_numpy(), np.uint64))
    high, low, content = (np.concatenate(columns.pop(name)) for name in DIGESTS.names)
    return Published(high, low, content, found)


def read(out: Path, file: str) -> pa.Table:
    """The facts of a part; ValueError if they are damaged."""
    data = storage.read(home(out) / file)
    if hashlib.sha256(data).hexdigest()[:16] != Path(file).stem:
        raise ValueError(f"{file} is damaged")
    return pa.ipc.open_file(pa.py_buffer(data)).read_all()


def shards(out: Path, file: str) -> list[OutputShard]:
    """The output shards of a part."""
    told: list[Row] = json.loads(read(out, file).schema.metadata[b"shards"])
    return [plan.from_row(row) for row in told]


def _made(part: Path, seed: int, proved: Proved) -> pa.Table:
    """The same as `read`, from the part itself in batches; without its output shards."""
    digests, groups, last = [], list[list[Any]](), None
    for table in tables.row_groups(part, opened=proved):
        for batch in (table.slice(at, BATCH) for at in range(0, table.num_rows, BATCH)):
            keys = seeded.keys(str(seed), batch["id"].to_pylist())
            content = canonical.of_rows(batch.drop_columns(_places(batch)))
            digests.append(pa.table([keys[:, 0], keys[:, 1], content], schema=DIGESTS))
            for shard, split, generation, count in _runs(batch):
                if shard != last:
                    groups.append([split, generation, 0])
                last = shard
                groups[-1][2] += count
    whole = pa.concat_tables([DIGESTS.empty_table(), *digests])
    return whole.replace_schema_metadata({"groups": json.dumps(groups)})


def _places(table: pa.Table) -> list[str]:
    return [name for name in PLACES if name in table.column_names]


def _runs(table: pa.Table) -> list[tuple[str, str, int, int]]:
    """(shard, split, generation, rows) of each run of rows in one shard."""
    runs = pc.run_end_encode(table["shard"].combine_chunks(), run_end_type=pa.int64())
    edges = [0, *runs.run_ends.to_pylist()]
    split, generation = (table[n].take(edges[:-1]).to_pylist() for n in ("split", "generation"))
    counts = [end - first for first, end in pairwise(edges)]
    return list(zip(runs.values.to_pylist(), split, generation, counts, strict=True))


def tell(
    digests: pa.Table, groups: Sequence[Sequence[Any]], shards: Sequence[OutputShard]
) -> bytes:
    """The bytes of a part's file. `groups`: (split, generation, rows) of each."""
    told = {
        "groups": json.dumps([list(group) for group in groups]),
        "shards": json.dumps([plan.to_row(replace(shard, unchanged=())) for shard in shards]),
    }
    target = io.BytesIO()
    table = digests.replace_schema_metadata(told).combine_chunks()
    with pa.ipc.new_file(target, table.schema) as out:
        out.write_table(table)
    return target.getvalue()


def guards(out: Path, version: Path) -> Mapping[str, str]:
    """Guards of the version's files, by name, as of its publication. Do not change the result: it
    is parsed once a process."""
    try:
        told = _parsed(storage.read(home(out) / GUARDS))
    except (OSError, ValueError):
        return {}
    found: Mapping[str, str] = told["guards"] if told.get("version") == version.name else {}
    return found


@lru_cache(maxsize=1)
def _parsed(text: bytes) -> JsonObject:
    told: JsonObject = json.loads(text)
    return told


def guard(out: Path, version: Path, name: str) -> str:
    """The guard of one file; empty if this version has to read it."""
    again = read_again(name, versions.number(version))
    return "" if again else guards(out, version).get(name, "")


def save_guards(out: Path, version: Path) -> None:
    """Note the guards of the newest version's files; only while holding OUT's lock."""
    told = {"version": version.name, "guards": dict(storage.of(version).guards(version))}
    storage.write_atomic(home(out) / GUARDS, json.dumps(told).encode())


def read_again(name: str, version: int) -> bool:
    """Whether a version reads a linked file although its guard is unchanged: every file is read
    once in EVERY versions, so that bit rot is found."""
    return (zlib.crc32(name.encode()) + version) % EVERY == 0


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
    names = []
    for name, file in parts:
        if isinstance(file, bytes):
            data, file = file, f"{hashlib.sha256(file).hexdigest()[:16]}.arrow"
            storage.write_atomic(home(out) / file, data)
        names.append([name, file])
    noted = {"sealed": seal, "seed": seed, "parts": names, "ledger": ledger, "firsts": firsts}
    storage.write_atomic(home(out) / "version.json", json.dumps(noted).encode())
    kept = {file for _, file in (*names, *ledger)}
    for path in storage.names(home(out), ".arrow"):
        if path.name not in kept:
            storage.remove(path)
