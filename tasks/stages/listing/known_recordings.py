"""The recordings that an OUT knows, as columns of hashes: 49 bytes each.

    OUT/manifests/known/<sha256[:16]>.parquet    the hashes, and the parts they were read from

The shards' parts are authoritative. With this cache, unchanged parts (same name and guard) need not
be read. It is written only if reading all of them would take long.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from ... import storage
from ...base.arrays import FixedBytes, Float64s, Int32s, Int64s, UInt8s, UInt64s
from ...base.errors import MAY_PASS
from ...base.logs import log
from ...shard_store import manifest, passing
from ...shard_store.index import Index
from ...storage import sorted_keys, tables
from . import entries, fingerprints

PRESENT, MAY_BE_TRIED, PASSING = 1, 2, 4  # bits of `flags`
PARTS = 3  # lowest bit of the number of its file's parts, up to MOST_PARTS
MOST_PARTS = 31
LEAST = 20_000  # recordings; reading fewer is as fast as writing the cache
BYTES_A_SECOND = 16000  # assumed without a length in the header: 128 kbit/s
ROOT = "manifests/shard"

SCHEMA = pa.schema(
    [
        ("key", pa.binary(16)),
        ("state", pa.uint64()),
        ("head", pa.uint64()),
        ("shard", pa.int32()),
        ("flags", pa.uint8()),
        ("content", pa.uint64()),
    ]
)


class Columns(NamedTuple):
    """Columns of the recordings of one or more shards, in this order."""

    keys: FixedBytes
    states: UInt64s
    heads: UInt64s
    shard: Int32s  # number in `KnownRecordings.shards`
    flags: UInt8s
    contents: UInt64s  # of the bytes; 0: unknown

    def where(self, chosen: NDArray[Any]) -> Columns:
        return Columns(*(column[chosen] for column in self))


#: By dataset: present recordings, and those of them known to be broken.
Counts = dict[str, tuple[int, int]]


@dataclass(slots=True)
class KnownRecordings:
    """All recordings, sorted by key."""

    shards: list[str]
    parts: list[tuple[str, str]]  # name and guard of each shard's newest part
    seconds: list[float]  # audio present in each shard, by header
    counts: list[Counts]  # recordings present in each shard
    columns: Columns
    stale: bool = False  # the cache is incomplete

    def present(self, number: int) -> int:
        """Recordings present in a shard."""
        return sum(count for count, _ in self.counts[number].values())

    @property
    def broken(self) -> FixedBytes:
        """Keys of recordings that could not be read, sorted."""
        keys: FixedBytes = self.columns.keys[self.columns.contents == 0]
        return keys

    def find(self, keys: FixedBytes) -> Int64s:
        """The row of each key; -1 if it is unknown."""
        return sorted_keys.index_in(self.columns.keys, keys)

    def replaced(self, tables: Mapping[int, Columns]) -> None:
        """Replace the rows of some shards, by their numbers."""
        changed = np.array(sorted(tables), np.int32)
        kept = self.columns.where(~np.isin(self.columns.shard, changed))
        self.columns = _sorted([kept, *tables.values()])

    def forget(self, number: int) -> None:
        """Drop a shard's outdated columns from the cache."""
        self.parts[number] = ("", "")


def home(out: Path) -> Path:
    return out / "manifests" / "known"


def of(out: Path, index: Index, damaged: manifest.OnDamage = manifest.leave) -> KnownRecordings:
    """The recordings that an OUT knows, from the newest part of each shard; `damaged` is called for
    each damaged part. A shard without an intact part keeps its cached recordings, but none counts
    as present or unchanged: listed ones are probed again, and stay in their shard."""
    names = manifest.shards(out)
    newest = _newest(index)
    noted = _noted(out)
    parts = [newest.get(name, ("", "")) for name in names]
    recordings = KnownRecordings(names, parts, [0.0] * len(names), [{} for _ in names], _empty())
    places = {name: number for number, name in enumerate(names)}
    moved = np.full(len(noted.shards), -1, np.int32)
    for old, name in enumerate(noted.shards):
        number = places.get(name)
        if number is not None and parts[number] == noted.parts[old] and parts[number][0]:
            moved[old] = number
            recordings.seconds[number], recordings.counts[number] = (
                noted.seconds[old],
                noted.counts[old],
            )
    shard = moved[noted.columns.shard]
    columns = [noted.columns._replace(shard=shard).where(shard >= 0)]
    lacking = sorted(set(range(len(names))) - set(moved.tolist()))
    recordings.stale = bool(lacking)
    cached = {name: old for old, name in enumerate(noted.shards)}
    for number in lacking:
        name, file = names[number], parts[number][0]
        if file and len(table := manifest.listed_in(out, name, file, damaged)):
            columns.append(note(recordings, number, table))
        elif name in cached:
            keys, states, heads, shard, flags, contents = noted.columns.where(
                noted.columns.shard == cached[name]
            )
            shard, none = np.full_like(shard, number), np.zeros_like
            facts = none(states), heads, shard, none(flags), none(contents)
            columns.append(Columns(keys, *facts))
    recordings.columns = _sorted(columns)
    return recordings


def note(recordings: KnownRecordings, number: int, table: pa.Table) -> Columns:
    """The columns of a shard's rows; also stores their audio and count in `recordings`."""
    present = table["present"].to_numpy()
    recordings.seconds[number] = float(seconds_of(table)[present].sum())
    present_rows = table.filter(pa.array(present)).select(["dataset", "error_code"])
    grouped = present_rows.group_by("dataset").aggregate(
        [([], "count_all"), ("error_code", "count")]
    )
    recordings.counts[number] = {
        row["dataset"]: (row["count_all"], row["error_code_count"]) for row in grouped.to_pylist()
    }
    again = pc.is_in(table["error_code"], pa.array(sorted(MAY_PASS), pa.string())).to_numpy()
    flags = np.where(present, PRESENT, 0) | np.where(again, MAY_BE_TRIED, 0)
    flags |= np.where(passing.passing(table), PASSING, 0)
    if "parts" in table.column_names:  # earlier rows have none
        parts = table["parts"].fill_null(0).to_numpy()
        flags |= np.minimum(parts, MOST_PARTS) << PARTS
    batch = entries.of_table(table)
    shard = np.full(len(table), number, np.int32)
    sound = pc.if_else(pc.is_null(table["error_code"]), table["content"], None)
    contents = fingerprints.heads(digest or "0" for digest in sound.to_pylist())
    hashes = batch.keys, batch.states, batch.heads
    return Columns(*hashes, shard, flags.astype(np.uint8), contents)


def parts_of(flags: UInt8s) -> UInt8s:
    """The number of parts of each recording's file; 0: not divided."""
    parts: UInt8s = (flags >> PARTS).astype(np.uint8)
    return parts


def seconds_of(table: pa.Table) -> Float64s:
    """Duration by header, else estimated from the size; for balance only, s."""
    guess = pc.divide(pc.cast(table["size"], pa.float64()), float(BYTES_A_SECOND))
    seconds: Float64s = pc.coalesce(table["header_seconds"], guess).to_numpy()
    return seconds


def save(out: Path, recordings: KnownRecordings, index: Index) -> None:
    """Save the cache for the next run; only while holding OUT's lock."""
    if len(recordings.columns.keys) < LEAST:
        return
    newest = _newest(index)
    recordings.parts = [newest.get(name, ("", "")) for name in recordings.shards]
    header = {
        "shards": recordings.shards,
        "parts": recordings.parts,
        "seconds": recordings.seconds,
        "counts": recordings.counts,
    }
    keys, *others = recordings.columns
    schema = SCHEMA.with_metadata({b"uttermill": json.dumps(header).encode()})
    table = pa.Table.from_arrays([fingerprints.stored(keys), *map(pa.array, others)], schema=schema)
    before = storage.named_by_hash(home(out), ".parquet")
    with storage.of(out).staged(home(out)) as (handle, publish):
        pq.write_table(table, handle, compression="lz4", use_dictionary=False)
        path = publish(lambda name: f"{name}.parquet")
    for old in before:
        if old.name != path.name:
            storage.remove(old)


def _noted(out: Path) -> KnownRecordings:
    """The last run's cache; empty if it is missing or damaged."""
    for path in storage.named_by_hash(home(out), ".parquet"):
        data = storage.read(path)
        if hashlib.sha256(data).hexdigest()[:16] != path.stem:
            log.warning("%s does not match the hash in its name; all shards are read", path)
            continue
        table = tables.from_parquet(data).combine_chunks()
        header = json.loads((table.schema.metadata or {})[b"uttermill"])
        keys = fingerprints.loaded(table["key"].chunk(0))
        others = (table[name].to_numpy() for name in SCHEMA.names[1:])
        parts = [(name, guard) for name, guard in header["parts"]]
        columns = Columns(keys, *others)
        counts = [
            {name: (n, bad) for name, (n, bad) in by_dataset.items()}
            for by_dataset in header["counts"]
        ]
        return KnownRecordings(header["shards"], parts, header["seconds"], counts, columns)
    return KnownRecordings([], [], [], [], _empty())


def _newest(index: Index) -> dict[str, tuple[str, str]]:
    """Name and guard of the newest part of each shard."""
    newest: dict[str, tuple[int, str, str]] = {}
    for name, guard in index.files.items():
        if not name.startswith(f"{ROOT}/"):
            continue
        _, _, shard, part = name.split("/")
        numbered = manifest.number_of(Path(part)), part, guard
        newest[shard] = max(newest.get(shard, (-2, "", "")), numbered)
    return {shard: (part, guard) for shard, (_, part, guard) in newest.items()}


def _sorted(parts: list[Columns]) -> Columns:
    whole = Columns(*map(np.concatenate, zip(*parts, strict=True)))
    return whole.where(np.argsort(whole.keys, kind="stable"))


def _empty() -> Columns:
    return Columns(
        np.zeros(0, fingerprints.KEY),
        np.zeros(0, np.uint64),
        np.zeros(0, np.uint64),
        np.zeros(0, np.int32),
        np.zeros(0, np.uint8),
        np.zeros(0, np.uint64),
    )
