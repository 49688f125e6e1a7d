"""Assigns recordings to the parts of the ledger, and keeps them there from version to version.

A ledger of up to `package.table_rows` rows is one file; a larger one is a folder of parts, each
with whole recordings. The first such version divides the recordings by hash. From then on, a part
is linked while none of its recordings changes; new and changed recordings go to new parts, and
changed or removed ones leave the old parts. Eight small parts of similar size are joined, so each
row is rewritten only a few times and there are few parts. Once most rows are new, all are divided
again.

    <scratch>/ledger/plan.json      the workers' tasks, and the shard batches that they read
    <scratch>/ledger/wanted.arrow   ACCOUNTS of the recordings that go to new parts
    <scratch>/ledger/new.arrow      keys of the recordings that the newest version does not have
    <scratch>/ledger/<n>.arrow      KEPT: recordings of the newest version whose rows task n copies

A version does not reveal how recordings were grouped into work shards.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from ... import storage
from ...base.arrays import Bools, Int32s, Int64s, UInt64s
from ...base.schema import LEDGER_FILE
from ...settings.job import Job
from ...storage import sorted_keys, tables, versions
from ..outcomes import recording_digests, shard_batches
from ..outcomes.recording_digests import KEY
from ..outcomes.shard_batches import ShardBatch
from . import ledger_index as ledger_notes
from .ledger_index import LedgerPart

FAN_BITS = 3  # 2**3 parts of similar size are joined
WANTED, NEW = "ledger/wanted.arrow", "ledger/new.arrow"
AT_ONCE = 160_000  # rows that one call may write, if they are several parts
KEPT = pa.schema({KEY: pa.uint64(), "gone": pa.bool_()})


@dataclass(frozen=True, slots=True)
class Task:
    """A part to write."""

    name: str
    before: Sequence[str] = ()  # parts of the newest version from which it takes rows
    portion: Sequence[int] | None = None  # (index, count): part of the wanted recordings, by hash


class LedgerPlan(NamedTuple):
    calls: list[list[int]]  # numbers of the tasks of each call to `ledger_parts.write`
    links: list[tuple[str, str]]  # (name of a part to link, name of its note)
    fingerprint: str  # a hash of all rows


def plan(job: Job, scratch: Path) -> LedgerPlan:
    """Plan the parts of the next version's ledger and save the workers' tasks into `scratch`."""
    batches = shard_batches.listed(scratch)
    now = recordings_now(batches)
    most, rows = job.package.table_rows, int(now.rows.sum())
    newest = versions.newest(job.out)
    parts = []
    if newest is not None:
        parts = ledger_notes.of_version(job.out, newest, versions.described(newest))
    old, fresh = compare(parts, now)
    single = rows <= most
    anew = (
        single or not parts or parts[0].name == LEDGER_FILE or 2 * int(now.rows[fresh].sum()) > rows
    )
    removed = [old_part.part.table[KEY].to_numpy()[departed(old_part)] for old_part in old]
    state = hashlib.sha256()
    departed_keys = np.sort(np.concatenate([np.zeros(0, np.uint64), *removed]))
    for codes in (now.keys, now.digests, departed_keys):
        state.update(codes.data)
    present = [part.part.table[KEY].to_numpy()[~_removed(part)] for part in old]
    new = now.keys[~np.isin(now.keys, np.concatenate([np.zeros(0, np.uint64), *present]))]
    if anew:
        fresh = np.ones(len(now.keys), bool)
        old = [old_part._replace(stays=departed(old_part) & old_part.stays) for old_part in old]
    with storage.of(scratch).writing(scratch) as home:
        (home / "ledger").mkdir(parents=True, exist_ok=True)
        tables.write_arrow(home / NEW, [pa.table({KEY: new})])
        tasks, links = _tasks(home, old, int(now.rows[fresh].sum()), most, single, anew)
        tables.write_arrow(home / WANTED, [_accounts(now, fresh)])
        saved = {
            "anew": anew,
            "tasks": [asdict(task) for task in tasks],
            "groups": np.unique(now.batch[fresh]).tolist(),
        }
        (home / "ledger/plan.json").write_text(json.dumps(saved))
    linked = [(t.name, t.file or ledger_notes.save(job.out, t.table)) for t in links]
    return LedgerPlan(_calls(tasks, most), linked, state.hexdigest())


def _removed(part: Old) -> Bools:
    """Which recordings of a part had left their source when it was published."""
    removed: Bools = part.part.table["removed"].to_numpy()
    return removed


def count_for(rows: int, most: int) -> int:
    """The number of parts for this many rows: a power of two, each part with about `most` rows."""
    return 1 if rows <= most else 1 << (-(-rows // most) - 1).bit_length()


def joined(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Which parts to join, given their numbers of rows: groups of indices; each part is in one."""
    items = [(rows, [index]) for index, rows in enumerate(sizes)]
    level = 0
    while level <= most.bit_length() // FAN_BITS:
        of_level = [item for item in items if _level(item[0]) == level]
        some, rows = list[tuple[int, list[int]]](), 0
        for item in of_level:
            if rows + item[0] <= most:
                some, rows = [*some, item], rows + item[0]
        if len(of_level) < 1 << FAN_BITS or len(some) < 2:
            level += 1
            continue
        items = [item for item in items if item not in some]
        items.append((rows, sorted(index for _, indices in some for index in indices)))
    return sorted(indices for _, indices in items)


def _level(rows: int) -> int:
    return max(rows.bit_length() - 1, 0) // FAN_BITS


def _tasks(
    home: Path, old: Sequence[Old], fresh: int, most: int, single: bool, anew: bool
) -> tuple[list[Task], list[LedgerPart]]:
    """The parts to write, and those to link. `fresh`: number of rows of new and changed recordings;
    `single`: the ledger is one file; `anew`: all recordings are divided again."""
    old = [old_part for old_part in old if old_part.rows]
    if single:
        _save_kept(home, 0, old)
        return [Task(LEDGER_FILE, tuple(old_part.part.name for old_part in old), (0, 1))], []
    count = count_for(fresh, most)
    sizes = [old_part.rows for old_part in old]
    runs = joined([*sizes, *([fresh] if count == 1 and fresh else [])], most)
    number = 0 if anew else max((old_part.number for old_part in old), default=-1) + 1
    tasks, links = list[Task](), list[LedgerPart]()
    if count > 1:
        for portion in range(count):
            tasks.append(Task(name_of(number), (), (portion, count)))
            number += 1
    for run in runs:
        joined_parts = [old[index] for index in run if index < len(old)]
        new = len(joined_parts) < len(run)
        if not new and len(joined_parts) == 1 and joined_parts[0].whole and not anew:
            links.append(joined_parts[0].part)
            continue
        if new or anew or len(joined_parts) > 1:
            name, number = name_of(number), number + 1
        else:
            name = joined_parts[0].part.name
        _save_kept(home, len(tasks), joined_parts)
        tasks.append(
            Task(
                name,
                tuple(old_part.part.name for old_part in joined_parts),
                (0, 1) if new else None,
            )
        )
    return tasks, links


def name_of(number: int) -> str:
    """The path of a part within the version."""
    return f"{LEDGER_FILE}/part-{number:05d}.parquet"


def _save_kept(home: Path, number: int, old: Sequence[Old]) -> None:
    """Save the keys (KEPT) of the recordings that task `number` takes over from these parts."""
    kept = [KEPT.empty_table()]
    for old_part in old:
        which = old_part.stays | old_part.gone
        keys = old_part.part.table[KEY].to_numpy()[which]
        kept.append(pa.table([keys, old_part.gone[which]], schema=KEPT))
    tables.write_arrow(home / f"ledger/{number}.arrow", [pa.concat_tables(kept)])


def _calls(tasks: Sequence[Task], most: int) -> list[list[int]]:
    """The tasks of each worker call. Adjacent portions share a call, so that each slice of the
    shard batches is read once, and few calls open all batches."""
    calls: dict[int, list[int]] = {}
    for number, task in enumerate(tasks):
        portion, count = task.portion or (0, 1)
        together = max(count // shard_batches.SLICES, 1 << (AT_ONCE // most or 1).bit_length() - 1)
        calls.setdefault(-1 - portion // together if count > 1 else number, []).append(number)
    return [*calls.values()]


# Which recordings changed since the newest version, and what each part of its ledger keeps.


class Now(NamedTuple):
    """All recordings with this run's outcomes, sorted by key."""

    keys: UInt64s
    digests: UInt64s
    rows: Int64s  # number of rows in the ledger
    overlaps: Bools
    batch: Int32s  # number of the shard batch


class Old(NamedTuple):
    """A part of the newest version's ledger, and which of its recordings it keeps."""

    number: int
    part: LedgerPart
    stays: Bools  # of each recording, whether its rows are unchanged
    gone: Bools  # of each recording, whether it has left its source since that version

    @property
    def whole(self) -> bool:
        return bool(self.stays.all())

    @property
    def rows(self) -> int:
        """Number of rows that are kept; a recording that is gone keeps one."""
        return int(self.part.table["rows"].to_numpy()[self.stays].sum() + self.gone.sum())


def recordings_now(batches: Sequence[ShardBatch]) -> Now:
    columns = (KEY, "digest", "rows", "overlaps")
    accounts = [batch.table("accounts.arrow", columns) for batch in batches]
    number = np.repeat(
        np.arange(len(accounts), dtype=np.int32), [len(account) for account in accounts]
    )
    empty = recording_digests.ACCOUNTS.empty_table().select(columns)
    table = pa.concat_tables([empty, *accounts])
    keys = table[KEY].to_numpy()
    order = np.argsort(keys, kind="stable")
    now = Now(
        keys[order],
        table["digest"].to_numpy()[order],
        table["rows"].to_numpy()[order].astype(np.int64),
        table["overlaps"].to_numpy()[order],
        number[order],
    )
    # Recordings with equal keys get equal digests, so that they change together.
    for index in np.flatnonzero(now.keys[1:] == now.keys[:-1]).tolist():
        now.digests[index] = now.digests[index + 1] = now.digests[index] + now.digests[index + 1]
    return now


def _accounts(now: Now, chosen: Bools) -> pa.Table:
    """ACCOUNTS of the chosen recordings, sorted by key; recordings with equal keys are merged."""
    keys, digests, rows, overlaps, _ = (column[chosen] for column in now)
    first = np.flatnonzero(sorted_keys.first_of_runs(keys))
    columns = [keys[first], digests[first], np.add.reduceat(rows, first).astype(np.int32)]
    columns += [np.logical_or.reduceat(overlaps, first), np.zeros(len(first), bool)]
    return pa.table(columns, schema=recording_digests.ACCOUNTS)


def compare(parts: Sequence[LedgerPart], now: Now) -> tuple[list[Old], Bools]:
    """The newest version's parts with what they keep, and which recordings of `now` must be
    written; bool [recordings]."""
    fresh = np.ones(len(now.keys), bool)
    old = list[Old]()
    for part in parts:
        keys = part.table[KEY].to_numpy()
        position = sorted_keys.index_in(now.keys, keys)
        is_present = position >= 0
        removed = part.table["removed"].to_numpy()
        same = is_present & ~removed
        same[same] = now.digests[position[same]] == part.table["digest"].to_numpy()[same]
        fresh[position[same]] = False
        number = 0 if part.name == LEDGER_FILE else int(Path(part.name).stem.removeprefix("part-"))
        old.append(Old(number, part, same | (removed & ~is_present), ~removed & ~is_present))
    twin = np.flatnonzero(now.keys[1:] == now.keys[:-1])
    fresh[twin + 1] = fresh[twin]
    return old, fresh


def departed(part: Old) -> Bools:
    """Which recordings of a part have left their source, before that version or since."""
    gone: Bools = part.gone | (part.stays & part.part.table["removed"].to_numpy())
    return gone
