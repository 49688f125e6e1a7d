"""The recordings that an OUT knows, as columns of hashes: 49 bytes each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...base.arrays import FixedBytes, Float64s, Int32s, Int64s, UInt8s, UInt64s
from ...base.errors import MAY_PASS
from ...shard_store import manifest
from ...shard_store.index import Index
from ...storage import sorted_keys
from . import entries

PRESENT, MAY_BE_TRIED, PASSING = 1, 2, 4  # bits of `flags`
PARTS = 3  # lowest bit of the number of its file's parts, up to MOST_PARTS
MOST_PARTS = 31
BYTES_A_SECOND = 16000  # assumed without a length in the header: 128 kbit/s
ROOT = "manifests/shard"
#: What `note` reads of a shard's rows.
COLUMNS = (
    *("recording", "dataset", "guard", "locator", "listed", "content", "present", "error_code"),
    *("parts", "size", "header_seconds"),
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
    shards: list[str]
    seconds: list[float]  # audio present in each shard, by header
    counts: list[Counts]  # recordings present in each shard
    columns: Columns

    def present(self, number: int) -> int:
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
        changed = np.array(sorted(tables), np.int32)
        kept = self.columns.where(~np.isin(self.columns.shard, changed))
        self.columns = _sorted([kept, *tables.values()])


def read(out: Path, index: Index, damaged: manifest.OnDamage = manifest.leave) -> KnownRecordings:
    """The recordings that an OUT knows, from the newest part of each shard; `damaged` is called for
    each damaged part."""
    names, newest = manifest.shards(out), dict[str, str]()  # file of the newest part of each
    for file in index.files:
        if file.startswith(f"{ROOT}/"):
            _, _, shard, part = file.split("/")
            newest[shard] = max(part, newest.get(shard, ""), key=manifest.number_of)
    kinds = (entries.KEY, np.uint64, np.uint64, np.int32, np.uint8, np.uint64)
    columns = [Columns(*(np.zeros(0, kind) for kind in kinds))]
    recordings = KnownRecordings(names, [0.0] * len(names), [{} for _ in names], columns[0])
    for number, name in enumerate(names):
        if name in newest:
            table = manifest.listed_in(out, name, newest[name], COLUMNS, damaged)
            columns.append(note(recordings, number, table))
    recordings.columns = _sorted(columns)
    return recordings


def note(recordings: KnownRecordings, number: int, table: pa.Table) -> Columns:
    """The columns of a shard's rows; also stores their audio and count in `recordings`."""
    present = table["present"].to_numpy()
    recordings.seconds[number] = float(seconds_of(table)[present].sum())
    counts = recordings.counts[number] = Counts()
    for row in table.select(["dataset", "error_code"]).filter(pa.array(present)).to_pylist():
        count, failed = counts.get(row["dataset"], (0, 0))
        counts[row["dataset"]] = count + 1, failed + (row["error_code"] is not None)
    again = pc.is_in(table["error_code"], pa.array(sorted(MAY_PASS), pa.string())).to_numpy()
    flags = np.where(present, PRESENT, 0) | np.where(again, MAY_BE_TRIED, 0)
    flags |= np.where(manifest.passing(table), PASSING, 0)
    flags |= np.minimum(table["parts"].fill_null(0).to_numpy(), MOST_PARTS) << PARTS
    batch = entries.of_table(table)
    shard = np.full(len(table), number, np.int32)
    sound = pc.if_else(pc.is_null(table["error_code"]), table["content"], None)
    contents = entries.heads(sound.to_pylist())
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


def _sorted(parts: list[Columns]) -> Columns:
    whole = Columns(*map(np.concatenate, zip(*parts, strict=True)))
    return whole.where(np.argsort(whole.keys, kind="stable"))
