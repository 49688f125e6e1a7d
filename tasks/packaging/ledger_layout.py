"""Which part of the ledger has the rows of which recording, from one version to the next.

A ledger of up to `package.table_rows` rows is one file; a larger one is a folder of parts of whole
recordings. The first such version divides them by hash. From then on, a part stays while none of
its recordings changes; what is new or changed goes to new parts, and what changed or left goes out
of the old ones. Eight small parts of about one size are joined, so each row is written a few times
in all, and parts stay few. Once most rows are new, all is divided anew.

    <scratch>/ledger/plan.json      what workers write, and which decided groups they read
    <scratch>/ledger/wanted.arrow   keys of the recordings that go to new parts, where not all do
    <scratch>/ledger/<n>.arrow      keys that stay of the newest version, in part n

A version never tells how recordings were grouped into work shards.
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
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks import storage
from tasks.dataset import versions
from tasks.job import Job
from tasks.json_types import JsonObject
from tasks.packaging import accounts, decided, judgements, ledger_notes, ledger_rows, parts
from tasks.packaging.accounts import KEY
from tasks.packaging.decided import Group
from tasks.packaging.ledger_notes import FILE, Told
from tasks.storage import tables

FAN_BITS = 3  # eight parts of one size are joined
KEPT = pa.schema({KEY: pa.uint64(), "gone": pa.bool_()})

Codes = NDArray[np.uint64]
Flags = NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Task:
    """A part that is written."""

    name: str
    before: tuple[str, ...] = ()  # parts of the newest version that rows are taken of
    portion: tuple[int, int] | None = None  # of the wanted recordings, by hash; None: none


class Now(NamedTuple):
    """All recordings as they are decided, sorted by key."""

    keys: Codes
    digests: Codes
    rows: NDArray[np.int64]
    group: NDArray[np.int32]


class Old(NamedTuple):
    """A part of the newest version, and what becomes of its recordings."""

    number: int
    told: Told
    stays: Flags
    gone: Flags  # they have left their sources now

    @property
    def whole(self) -> bool:
        return bool(self.stays.all())

    @property
    def rows(self) -> int:
        """Rows that it has from now on."""
        return int(self.told.table["rows"].to_numpy()[self.stays].sum() + self.gone.sum())


def plan(job: Job, scratch: Path, judged: bool) -> JsonObject:
    """Save what workers do; `judged`: there are corpus-wide verdicts.

    Returns `{"calls", "links", "fingerprint"}`: the numbers of the tasks of each call to
    `ledger_parts.write`, names of parts that are linked with the files that tell of them, and a
    hash of all rows.
    """
    groups = decided.listed(job, scratch)
    now = _now(groups)
    if judged:
        _enter_verdicts(scratch, groups, now)
    most, rows = job.package.table_rows, int(now.rows.sum())
    newest = versions.newest(job.out)
    told = []
    if newest is not None:
        told = ledger_notes.of_version(job.out, newest, versions.described(newest))
    old, fresh = _compared(told, now)
    single = rows <= most
    anew = single or not told or told[0].name == FILE or 2 * int(now.rows[fresh].sum()) > rows
    removed = [each.told.table[KEY].to_numpy()[_left(each)] for each in old]
    state = hashlib.sha256()
    left = np.sort(np.concatenate([np.zeros(0, np.uint64), *removed]))
    for codes in (now.keys, now.digests, left):
        state.update(codes.data)
    if anew:
        fresh = np.ones(len(now.keys), bool)
        old = [each._replace(stays=_left(each) & each.stays) for each in old]
    with storage.of(scratch).writing(scratch) as home:
        (home / "ledger").mkdir(parents=True, exist_ok=True)
        tasks, links = _tasks(home, old, int(now.rows[fresh].sum()), most, single, anew)
        if not anew:
            wanted = pa.table([now.keys[fresh]], schema=pa.schema({KEY: pa.uint64()}))
            parts.write_batches(home / "ledger/wanted.arrow", [wanted])
        saved = {
            "anew": anew,
            "tasks": [asdict(task) for task in tasks],
            "groups": np.unique(now.group[fresh]).tolist(),
        }
        (home / "ledger/plan.json").write_text(json.dumps(saved))
    return {
        "calls": _calls(tasks),
        "links": [[t.name, t.file or ledger_notes.save(job.out, t.table)] for t in links],
        "fingerprint": state.hexdigest(),
    }


def count_for(rows: int, most: int) -> int:
    """Parts for so many rows: a power of two, each of about `most` rows."""
    return 1 if rows <= most else 1 << (-(-rows // most) - 1).bit_length()


def joined(sizes: Sequence[int], most: int) -> list[list[int]]:
    """Which parts, of so many rows each, are joined: as indices, each part once, in order."""
    items = [(rows, [index]) for index, rows in enumerate(sizes)]
    level = 0
    while level <= most.bit_length() // FAN_BITS:
        own = [each for each in items if _level(each[0]) == level]
        some, rows = list[tuple[int, list[int]]](), 0
        for each in own:
            if rows + each[0] <= most:
                some, rows = [*some, each], rows + each[0]
        if len(own) < 1 << FAN_BITS or len(some) < 2:
            level += 1
            continue
        items = [each for each in items if each not in some]
        items.append((rows, sorted(index for _, indices in some for index in indices)))
    return sorted(indices for _, indices in items)


def _level(rows: int) -> int:
    return max(rows.bit_length() - 1, 0) // FAN_BITS


def _now(groups: Sequence[Group]) -> Now:
    found = [each.table("accounts.arrow", (KEY, "digest", "rows")) for each in groups]
    group = np.repeat(np.arange(len(found), dtype=np.int32), [len(each) for each in found])
    empty = accounts.ACCOUNTS.empty_table().select([KEY, "digest", "rows"])
    table = pa.concat_tables([empty, *found])
    keys = table[KEY].to_numpy()
    order = np.argsort(keys, kind="stable")
    now = Now(
        keys[order],
        table["digest"].to_numpy()[order],
        table["rows"].to_numpy()[order].astype(np.int64),
        group[order],
    )
    # Recordings of one hash are as one: their rows stay together.
    for at in np.flatnonzero(now.keys[1:] == now.keys[:-1]).tolist():
        now.digests[at] = now.digests[at + 1] = now.digests[at] + now.digests[at + 1]
    return now


def _enter_verdicts(scratch: Path, groups: Sequence[Group], now: Now) -> None:
    """Let the digests be those of the recordings with corpus-wide verdicts."""
    with tables.arrow(scratch / judgements.FILE) as file:
        held = pa.ipc.open_file(file)
        again = dict[int, pa.Table]()  # verdicts where spans overlap, by group
        count = held.num_record_batches
        judged = [held.get_batch(at)["group"][0].as_py() for at in range(count)]
        overlapping = _overlapping(groups, judged)
        for at, number in enumerate(judged):
            verdicts = pa.Table.from_batches([held.get_batch(at)])
            moved = pc.is_in(verdicts[KEY], overlapping)
            alone = verdicts.filter(pc.invert(moved))
            place = np.searchsorted(now.keys, alone[KEY].to_numpy())
            np.add.at(now.digests, place, accounts.changes(alone))
            if pc.any(moved).as_py():
                again[number] = verdicts.filter(moved)
    for number, own in again.items():
        rows = groups[number].ledger(range(decided.SLICES))
        rows = rows.filter(pc.is_in(rows[KEY], own[KEY]))
        told = accounts.of_ledger(ledger_rows.judged(rows, own))
        now.digests[np.searchsorted(now.keys, told[KEY].to_numpy())] = told["digest"].to_numpy()


def _overlapping(groups: Sequence[Group], numbers: Sequence[int]) -> pa.Array:
    """Keys of recordings with overlapping spans: a verdict there moves samples between rows."""
    found = [pa.array([], pa.uint64())]
    for number in numbers:
        table = groups[number].table("accounts.arrow", (KEY, "overlaps"))
        found += table[KEY].filter(table["overlaps"]).chunks
    return pa.concat_arrays(found)


def _compared(told: Sequence[Told], now: Now) -> tuple[list[Old], Flags]:
    """What becomes of the parts; and which recordings of now are in none that stays."""
    fresh = np.ones(len(now.keys), bool)
    old = list[Old]()
    for part in told:
        keys = part.table[KEY].to_numpy()
        at = np.minimum(np.searchsorted(now.keys, keys), max(len(now.keys) - 1, 0))
        there = now.keys[at] == keys if len(now.keys) else np.zeros(len(keys), bool)
        removed = part.table["removed"].to_numpy()
        same = there & ~removed
        same[same] = now.digests[at[same]] == part.table["digest"].to_numpy()[same]
        fresh[at[same]] = False
        number = 0 if part.name == FILE else int(Path(part.name).stem.removeprefix("part-"))
        old.append(Old(number, part, same | (removed & ~there), ~removed & ~there))
    twin = np.flatnonzero(now.keys[1:] == now.keys[:-1])
    fresh[twin + 1] = fresh[twin]
    return old, fresh


def _left(part: Old) -> Flags:
    """Recordings of a part that are in no source, now or before."""
    found: Flags = part.gone | (part.stays & part.told.table["removed"].to_numpy())
    return found


def _tasks(
    home: Path, old: Sequence[Old], fresh: int, most: int, single: bool, anew: bool
) -> tuple[list[Task], list[Told]]:
    """The parts that are written, and those that are linked. `fresh`: rows for new parts."""
    old = [each for each in old if each.rows]
    if single:
        _save_kept(home, 0, old)
        return [Task(FILE, tuple(each.told.name for each in old), (0, 1))], []
    count = count_for(fresh, most)
    sizes = [each.rows for each in old]
    runs = joined([*sizes, *([fresh] if count == 1 and fresh else [])], most)
    number = 0 if anew else max((each.number for each in old), default=-1) + 1
    tasks, links = list[Task](), list[Told]()
    if count > 1:
        for at in range(count):
            tasks.append(Task(name_of(number), (), (at, count)))
            number += 1
    for run in runs:
        own = [old[index] for index in run if index < len(old)]
        new = len(own) < len(run)
        if not new and len(own) == 1 and own[0].whole and not anew:
            links.append(own[0].told)
            continue
        if new or anew or len(own) > 1:
            name, number = name_of(number), number + 1
        else:
            name = own[0].told.name
        _save_kept(home, len(tasks), own)
        tasks.append(Task(name, tuple(each.told.name for each in own), (0, 1) if new else None))
    return tasks, links


def name_of(number: int) -> str:
    """The file of a part, in the version."""
    return f"{FILE}/part-{number:05d}.parquet"


def _save_kept(home: Path, number: int, old: Sequence[Old]) -> None:
    """The keys of these parts of which rows stay."""
    found = [KEPT.empty_table()]
    for each in old:
        which = each.stays | each.gone
        keys = each.told.table[KEY].to_numpy()[which]
        found.append(pa.table([keys, each.gone[which]], schema=KEPT))
    parts.write_batches(home / f"ledger/{number}.arrow", [pa.concat_tables(found).combine_chunks()])


def _calls(tasks: Sequence[Task]) -> list[list[int]]:
    """The tasks of each worker call: those of one slice of what was decided together, so that each
    slice is read once."""
    calls: dict[int, list[int]] = {}
    for number, task in enumerate(tasks):
        at, count = task.portion or (0, 1)
        sliced = count > decided.SLICES
        calls.setdefault(-1 - at * decided.SLICES // count if sliced else number, []).append(number)
    return [*calls.values()]
