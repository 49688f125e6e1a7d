"""The recordings that an OUT knows, as columns of hashes and numbers: 61 bytes each."""

from __future__ import annotations

import math
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple, NotRequired, cast

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ... import audio, storage
from ...base.arrays import Bools, FixedBytes, Float64s, Int32s, Int64s, UInt8s, UInt64s
from ...base.counting import counted
from ...base.errors import MAY_PASS, ItemError
from ...base.logs import log
from ...base.schema import LEDGER_FILE, RECORDINGS, RecordingRow
from ...recording import Locator
from ...recording.guard import identity
from ...settings.job import Job
from ...shard_store import manifest
from ...shard_store.index import Index
from ...storage import bounds, is_url, sorted_keys, tables, urls, versions
from . import entries

PRESENT, MAY_BE_TRIED, PASSING = 1, 2, 4  # bits of `flags`
PARTS = 3  # lowest bit of the number of its file's parts, up to MOST_PARTS
MOST_PARTS = 31
BYTES_A_SECOND = 16000  # assumed without a length in the header: 128 kbit/s
ROOT = "manifests/shard"
AT_ONCE = 256  # shards whose listings are noted together
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
    contents: UInt64s  # of the bytes; 0: they cannot be read
    dataset: Int32s  # number in `KnownRecordings.datasets`
    seconds: Float64s  # `seconds_of`

    def where(self, chosen: NDArray[Any]) -> Columns:
        return Columns(*(column[chosen] for column in self))


#: Of `Columns`.
KINDS = (
    *(entries.KEY, np.uint64, np.uint64, np.int32, np.uint8, np.uint64),
    *(np.int32, np.float64),
)


@dataclass(slots=True)
class KnownRecordings:
    shards: list[str]
    datasets: list[str]
    columns: Columns

    @property
    def present(self) -> Bools:
        """Which recordings their sources had at the last listing."""
        return self.columns.flags & PRESENT > 0

    def outside(self, datasets: Sequence[str]) -> Bools:
        """Which recordings are present, and of other datasets than these."""
        numbers = [number for number, name in enumerate(self.datasets) if name in datasets]
        return self.present & ~np.isin(self.columns.dataset, numbers)

    def by_dataset(self, rows: Bools) -> Counter[str]:
        """The number of these recordings in each dataset."""
        return Counter([self.datasets[code] for code in self.columns.dataset[rows].tolist()])

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
    names, newest = manifest.shards(out), dict[str, str]()
    for file in index.files:
        if file.startswith(f"{ROOT}/"):
            _, _, shard, part = file.split("/")
            newest[shard] = max(part, newest.get(shard, ""), key=manifest.number_of)
    nothing = Columns(*(np.zeros(0, kind) for kind in KINDS))
    recordings = KnownRecordings(names, [], nothing)
    listed = [number for number, name in enumerate(names) if name in newest]
    columns = [nothing]
    for first in range(0, len(listed), AT_ONCE):
        parts = {
            number: manifest.listed_in(out, names[number], newest[names[number]], COLUMNS, damaged)
            for number in listed[first : first + AT_ONCE]
        }
        columns.append(note(recordings, parts))
    recordings.columns = _sorted(columns)
    return recordings


def note(recordings: KnownRecordings, parts: Mapping[int, pa.Table]) -> Columns:
    """The columns of the rows of some shards, by number."""
    table = pa.concat_tables([part.select(COLUMNS) for part in parts.values()])
    datasets = tables.coded(table["dataset"])
    named = datasets.dictionary.to_pylist()
    recordings.datasets += [name for name in named if name not in recordings.datasets]
    numbers = np.array([*map(recordings.datasets.index, named)], np.int32)
    present = table["present"].to_numpy()
    again = pc.is_in(table["error_code"], pa.array(sorted(MAY_PASS), pa.string())).to_numpy()
    flags = np.where(present, PRESENT, 0) | np.where(again, MAY_BE_TRIED, 0)
    flags |= np.where(manifest.passing(table), PASSING, 0)
    flags |= np.minimum(table["parts"].fill_null(0).to_numpy(), MOST_PARTS) << PARTS
    batch = entries.of_table(table)
    shard = np.repeat(np.array([*parts], np.int32), [len(part) for part in parts.values()])
    sound = pc.if_else(pc.is_null(table["error_code"]), table["content"], None)
    contents = entries.heads(sound.to_pylist())
    dataset = numbers[datasets.indices.to_numpy()]
    hashes, bits = (batch.keys, batch.states, batch.heads), flags.astype(np.uint8)
    return Columns(*hashes, shard, bits, contents, dataset, seconds_of(table))


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


# Listed rows on their way to the workers and back, in files of a thousand rows in a scratch folder,
# and merged with the rows of their shards. The scheduler carries only a path and two numbers, and a
# worker reads at most one such file.


ROWS = 1000  # most in a file, within `bounds.BATCH_BYTES`
PLACE = "place"  # number of the shard that has the recording; -1: none
PROBED = (
    *("content", "header_rate", "header_channels", "header_seconds", "start_seconds"),
    *("format", "channels", "parts", "division", "copy_of"),
)
LISTED = pa.schema([*RECORDINGS, pa.field(PLACE, pa.int32())])


class ListedRow(RecordingRow):
    """A row of LISTED; `probed`: its file was read."""

    place: NotRequired[int]
    probed: NotRequired[bool]


class RowFiles:
    def __init__(self, home: Path, stem: str) -> None:
        self.files: list[tuple[Path, int]] = []  # with the number of rows
        self.count = 0
        self._home, self._stem = home, stem
        self._waiting: list[pa.Table] = []

    def add(self, rows: pa.Table, places: Int32s) -> None:
        self.count += len(rows)
        if len(rows):
            self._waiting.append(rows.append_column(PLACE, pa.array(places, pa.int32())))
            self._flush(ROWS)

    def close(self) -> None:
        self._flush(1)

    def tables(self) -> Iterator[pa.Table]:
        """The added rows, in order; call after `close`."""
        for path, _ in self.files:
            yield tables.read(path)

    def _flush(self, least: int) -> None:
        while sum(map(len, self._waiting)) >= least or (
            sum(table.nbytes for table in self._waiting) > bounds.BATCH_BYTES
        ):
            whole = pa.concat_tables(self._waiting)
            path = self._home / f"{self._stem}-{len(self.files):06d}.parquet"
            full = whole.slice(0, ROWS)
            save(full, path)
            self.files.append((path, len(full)))
            rest = whole.slice(ROWS)
            self._waiting = [rest] if len(rest) else []


def save(rows: pa.Table, path: Path) -> None:
    storage.store_of(path).write(path, tables.parquet(rows.cast(LISTED), compression="lz4"))


def merged(old: list[RecordingRow], rows: pa.Table | None, gone: FixedBytes) -> list[RecordingRow]:
    """The updated rows of a shard in their order, followed by new recordings."""
    index_by_name = {row["recording"]: index for index, row in enumerate(old)}
    if len(gone):
        leaving = sorted_keys.index_in(gone, entries.keys(index_by_name)) >= 0
        for old_row, is_gone in zip(old, leaving, strict=True):
            old_row["present"] = old_row["present"] and not is_gone
    listed: list[ListedRow] = rows.to_pylist() if rows is not None else []
    for row in listed:
        probed = row.pop("probed")
        del row["place"]
        index = index_by_name.get(row["recording"])
        if index is None:
            old.append(row)
        elif probed:
            row["present"] = row["error_code"] != "changed"
            old[index] = row
        else:
            old[index] = _redescribed(old[index], row)
    return old


def _redescribed(old: RecordingRow, row: RecordingRow) -> RecordingRow:
    """The row with the source's new description of unchanged bytes: texts, segments."""
    merged = with_probed(row, old)
    if old["error_code"] and not row["error_code"]:
        listed = {**old, "present": True, "error_code": None, "error_detail": None}
        # Found by probing its bytes, and not stated by its source.
        if old["content"] is None or entries.listed(listed) == old["listed"]:
            merged["error_code"], merged["error_detail"] = old["error_code"], old["error_detail"]
    return merged


def with_probed(row: RecordingRow, old: RecordingRow) -> RecordingRow:
    """A row with the probed values of `old`, which has the same bytes."""
    return cast(RecordingRow, {**row, **{name: old.get(name) for name in PROBED}})


# Hashes known recordings again, although nothing shows that their files changed. A guard is only as
# reliable as the file system: a damaged disk, a tool that writes below the file system, or a server
# that sets times itself leaves it unchanged.


SHARE, MOST_SECONDS = 0.03, 5.0  # defaults: a run with nothing to do takes seconds
THREADS = 4


def doubted(job: Job, index: Index) -> set[str]:
    """Names of recordings whose bytes differ from their digest: among a share of all, another one
    in each run, and those that changed while the last run read them. `index`: a listing of OUT."""
    share, deadline = job.shard.rehash, math.inf
    if share is None:  # without a run number there is no turn
        share, deadline = SHARE if job.number else 0.0, time.monotonic() + MOST_SECONDS
    listed = {name.split("/")[2] for name in index.files if name.startswith(f"{ROOT}/")}
    shards = due(sorted(listed), share, job.number)
    changed = set(differing(job.out, shards, deadline, index.repair))
    if changed:
        log.warning(
            "%s changed under the same size and times, such as %s; what changed is computed again",
            counted(len(changed), "recording has", "recordings have"),
            min(changed),
        )
    return changed | _changed_meanwhile(job)


def due(shards: Sequence[str], share: float, number: int) -> list[str]:
    """The shards that the run with this number hashes again: all in turn. Each round starts at
    another place of a run's portion, in case time runs out."""
    count = math.ceil(len(shards) * share)
    if not count:
        return []
    begin = number * count
    portion = [shards[index % len(shards)] for index in range(begin, begin + count)]
    turn = begin // len(shards) % count
    return portion[turn:] + portion[:turn]


def differing(
    out: Path,
    shards: Iterable[str],
    deadline: float = math.inf,
    damaged: manifest.OnDamage = manifest.leave,
) -> Iterator[str]:
    """Names of the shards' local recordings whose bytes differ from their digest; `damaged` is
    called for each damaged listing."""
    with ThreadPoolExecutor(THREADS) as threads:
        for shard in shards:
            if time.monotonic() > deadline:
                return
            rows = manifest.listed(out, shard, damaged).to_pylist()
            differs = threads.map(_differs, rows)
            yield from (row["recording"] for row, wrong in zip(rows, differs, strict=True) if wrong)


def _differs(row: RecordingRow) -> bool:
    locator = Locator.loads(row["locator"])
    sound = row["present"] and row["content"] and not row["error_code"]
    if not sound or is_url(locator.path):
        return False
    try:
        if identity(urls.guard(locator.path)) != identity(row["guard"]):
            return False  # the listing detects that
        return bool(audio.digest(locator)[0] != row["content"])
    except (ItemError, OSError):  # the run will report it
        return False


def _changed_meanwhile(job: Job) -> set[str]:
    newest = versions.newest(job.out)
    reasons = versions.described(newest)["reasons"] if newest else ()
    if newest is None or not any(name.endswith(".changed") for name in reasons):
        return set()
    rows = tables.read(
        newest / LEDGER_FILE, columns=["recording"], filters=pc.field("reason") == "changed"
    )
    return {*rows["recording"].to_pylist()}
