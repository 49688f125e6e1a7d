"""Which recordings changed since the newest version, and what each part of its ledger keeps."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.arrays import Bools, Int32s, Int64s, UInt64s
from tasks.base.schema import LEDGER_FILE
from tasks.publish.choosing import corpus_rejections
from tasks.publish.ledger import rows as ledger_rows
from tasks.publish.ledger.ledger_index import LedgerPart
from tasks.publish.outcomes import recording_digests, shard_batches
from tasks.publish.outcomes.recording_digests import KEY
from tasks.publish.outcomes.shard_batches import ShardBatch
from tasks.storage import sorted_keys, tables


class Now(NamedTuple):
    """All recordings with this run's outcomes, sorted by key."""

    keys: UInt64s
    digests: UInt64s
    rows: Int64s
    batch: Int32s


class Old(NamedTuple):
    """A part of the newest version's ledger, and which of its recordings it keeps."""

    number: int
    part: LedgerPart
    stays: Bools
    gone: Bools  # left their sources since that version

    @property
    def whole(self) -> bool:
        return bool(self.stays.all())

    @property
    def rows(self) -> int:
        """Rows that it keeps."""
        return int(self.part.table["rows"].to_numpy()[self.stays].sum() + self.gone.sum())


def recordings_now(batches: Sequence[ShardBatch]) -> Now:
    accounts = [batch.table("accounts.arrow", (KEY, "digest", "rows")) for batch in batches]
    number = np.repeat(
        np.arange(len(accounts), dtype=np.int32), [len(account) for account in accounts]
    )
    empty = recording_digests.ACCOUNTS.empty_table().select([KEY, "digest", "rows"])
    table = pa.concat_tables([empty, *accounts])
    keys = table[KEY].to_numpy()
    order = np.argsort(keys, kind="stable")
    now = Now(
        keys[order],
        table["digest"].to_numpy()[order],
        table["rows"].to_numpy()[order].astype(np.int64),
        number[order],
    )
    # Recordings with the same hash count as one, so their rows stay together.
    for index in np.flatnonzero(now.keys[1:] == now.keys[:-1]).tolist():
        now.digests[index] = now.digests[index + 1] = now.digests[index] + now.digests[index + 1]
    return now


def enter_outcomes(scratch: Path, batches: Sequence[ShardBatch], now: Now) -> None:
    """Update the digests of recordings that corpus-wide rejections touch."""
    for record_batch in tables.arrow_batches(scratch / corpus_rejections.FILE):
        batch, outcomes = (
            batches[record_batch["group"][0].as_py()],
            pa.Table.from_batches([record_batch]),
        )
        accounts = batch.table("accounts.arrow", (KEY, "overlaps"))
        # Where spans overlap, a rejection moves samples between rows.
        moved = pc.is_in(outcomes[KEY], accounts[KEY].filter(accounts["overlaps"]).combine_chunks())
        alone = outcomes.filter(pc.invert(moved))
        place = np.searchsorted(now.keys, alone[KEY].to_numpy())
        np.add.at(now.digests, place, recording_digests.changes(alone))
        if pc.any(moved).as_py():
            overlapping = outcomes.filter(moved)
            rows = batch.ledger(range(shard_batches.SLICES))
            rows = rows.filter(pc.is_in(rows[KEY], overlapping[KEY]))
            account = recording_digests.of_ledger(ledger_rows.with_outcomes(rows, overlapping))
            place = np.searchsorted(now.keys, account[KEY].to_numpy())
            now.digests[place] = account["digest"].to_numpy()


def compare(parts: Sequence[LedgerPart], now: Now) -> tuple[list[Old], Bools]:
    """What each old part keeps, and which of today's recordings have to be written anew."""
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
    """Which recordings of a part are in no source any more."""
    gone: Bools = part.gone | (part.stays & part.part.table["removed"].to_numpy())
    return gone
