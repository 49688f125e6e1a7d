"""Writes and links the parts of a version's ledger on the workers (`layout.py` plans them).

Rows of a part are sorted by recording, start, end and utterance.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from ... import storage
from ...base.errors import RunError
from ...base.schema import LEDGER
from ...settings.job import Job
from ...storage import long_columns, tables, versions
from ...storage.atomic import HashedFile
from ...storage.versions import Proved
from .. import previous_version
from ..outcomes import recording_digests, shard_batches
from ..outcomes.recording_digests import KEY
from ..outcomes.shard_batches import KEYED
from . import layout
from . import ledger_index as ledger_notes
from . import rows as ledger_rows
from .layout import Task
from .ledger_index import Written

LINKED = 64  # parts that one call links


def write(
    job: Job, scratch: Path, numbers: Sequence[int], staging: Path, newest: Path | None
) -> None:
    """On a worker: write the parts of these tasks into the staging folder, and record them in
    `scratch`. The shard batches' ledgers are read once for all tasks of a call."""
    plan = json.loads(storage.read(scratch / "ledger/plan.json"))
    tasks = [Task(**plan["tasks"][number]) for number in numbers]
    rows, accounts = KEYED.empty_table(), recording_digests.ACCOUNTS.empty_table()
    if tasks[0].portion is not None:
        first, (last, count) = tasks[0].portion[0], tasks[-1].portion or (0, 1)
        size = shard_batches.SLICES
        slices = range(first * size // count, max(-(-(last + 1) * size // count), 1))
        batches = shard_batches.listed(scratch)
        rows = shard_batches.ledger((batches[number] for number in plan["groups"]), slices)
        accounts = tables.read_arrow(scratch / layout.WANTED)
        if not plan["anew"]:
            rows = rows.filter(pc.is_in(rows[KEY], accounts[KEY].combine_chunks()))
        rows = ledger_rows.in_order(rows, shard_batches.slice_of(rows[KEY].to_numpy(), count))
    new = tables.read_arrow(scratch / layout.NEW)[KEY].combine_chunks()
    written = []
    for number, task in zip(numbers, tasks, strict=True):
        part_rows, account = _portion(rows, task), _portion(accounts, task)
        # Copied, because a slice would be written with bits of its neighbours.
        account = long_columns.take(account, np.arange(len(account)))
        arrived = (
            part_rows.filter(pc.is_in(part_rows[KEY], new)) if newest else part_rows.slice(0, 0)
        )
        part_rows = part_rows.drop_columns([KEY])
        gone: list[str] = []
        if task.before:
            assert newest is not None
            kept, departed = _before(newest, task, scratch / f"ledger/{number}.arrow")
            gone = departed["recording"].to_pylist()
            part_rows = ledger_rows.in_order(pa.concat_tables([part_rows, kept, departed]))
            account = recording_digests.of_ledger(part_rows)
        written.append(_write(job, task.name, part_rows, account, staging, gone, arrived))
    ledger_notes.note(scratch, numbers[0], written)


def _portion(table: pa.Table, task: Task) -> pa.Table:
    """The rows of the task's portion, from a table that is sorted by portion."""
    if task.portion is None:
        return table.slice(0, 0)
    portion, count = task.portion
    portions = shard_batches.slice_of(table[KEY].to_numpy(), count)
    low, high = np.searchsorted(portions, [portion, portion + 1]).tolist()
    return table.slice(low, high - low)


def link(
    job: Job, scratch: Path, number: int, some: Sequence[tuple[str, str]], staging: Path
) -> None:
    """On a worker: link these parts of the newest version, each given as (name, name of its note).
    Raises RunError if one differs from what was published."""
    newest = versions.newest(job.out)
    assert newest is not None
    files, guards = versions.files(newest), previous_version.guards(job.out, newest)
    written, nothing = [], ledger_notes.facts_of(LEDGER.empty_table())
    for name, note_file in some:
        storage.of(staging).detach(staging / name)
        sha256, size = files[name]["sha256"], files[name]["bytes"]
        guard = previous_version.guard(guards, newest, name)
        old = storage.inside(newest, name)
        if not storage.of(newest).link(old, staging / name, sha256, size, guard):
            raise RunError(versions.differs(newest, name))
        written.append(Written(name, (sha256, size), note_file, [], nothing))
    ledger_notes.note(scratch, 900_000 + number, written)


def linking(links: Sequence[tuple[str, str]]) -> list[Sequence[tuple[str, str]]]:
    """The parts for each call of `link`."""
    return [links[low : low + LINKED] for low in range(0, len(links), LINKED)]


def _write(
    job: Job,
    name: str,
    ledger: pa.Table,
    accounts: pa.Table,
    staging: Path,
    gone: list[str],
    arrived: pa.Table,
) -> Written:
    """Write a part and its note. `accounts`: ACCOUNTS of its rows; `gone`: recordings that have
    left their source; `arrived`: rows of recordings that the previous version does not have."""
    # A file that a dead worker left may be a link into a published version.
    storage.of(staging).detach(staging / name)
    with storage.of(staging).writing(staging, job.scratch) as home:
        target = home / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as raw:
            file = HashedFile(raw)
            pq.write_table(ledger, file, compression="zstd")
    note_file = ledger_notes.save(job.out, ledger_notes.tell(ledger, accounts))
    digest = file.sha.hexdigest(), file.size
    return Written(name, digest, note_file, gone, ledger_notes.facts_of(arrived))


def _before(newest: Path, task: Task, kept: Path) -> tuple[pa.Table, pa.Table]:
    """Rows of the newest version that stay, and a row (`rows.removed`) for each recording that has
    left its source since. `kept`: file with KEPT."""
    kept_keys = tables.read_arrow(kept)
    stays, gone = (
        kept_keys[KEY].filter(mask) for mask in (pc.invert(kept_keys["gone"]), kept_keys["gone"])
    )
    opened, rows, departed = Proved(newest), [], []
    for name in task.before:
        for table in tables.row_groups(storage.inside(newest, name), opened=opened):
            ledger = tables.conformed(table, LEDGER)
            keys = pa.array(recording_digests.keys_of(ledger["recording"]))
            rows.append(ledger.filter(pc.is_in(keys, stays)))
            if len(gone):
                departed.append(ledger.filter(pc.is_in(keys, gone)))
    empty = LEDGER.empty_table()
    return pa.concat_tables([empty, *rows]), ledger_rows.removed(
        pa.concat_tables([empty, *departed])
    )
