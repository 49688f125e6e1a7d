"""Forecasts the next version from the results stored so far, for commands that publish nothing.

It calls the functions of `package`, in a temporary folder: facts of shard batches that a run
left in OUT are reused, the others are gathered there. Utterances that are still to be computed are
pending, and count in weights, hours per speaker and splits as if they were packaged.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..accounting.ledger import NOT_PUBLISHED, PENDING
from ..base.arrays import Bools, UInt64s
from ..base.schema import LEDGER_FILE, RecordingRow
from ..settings.job import Job
from ..shard_store.index import Index
from ..storage import owners, sorted_keys, tables, temporary, versions
from . import published_columns
from .choosing import next_version
from .outcomes import batch_outcomes, shard_batches
from .outcomes.shard_batches import ShardBatch
from .unchanged import fact_keys

Listings = Mapping[str, Sequence[RecordingRow]]


@dataclass(frozen=True)
class Foreseen:
    """The outcomes of all utterances of some shards; valid inside `version`."""

    job: Job
    scratch: Path
    batches: Sequence[ShardBatch]  # with outcomes in which rules over all clips have no part

    @cached_property
    def choice(self) -> next_version.Choice:
        """Raises RunError if two utterances have the same id."""
        return next_version.choose(self.job, self.scratch, self.batches)

    def _with_rejected(self) -> Iterator[tuple[ShardBatch, pa.Table | None]]:
        """Each batch, and what rules over all clips reject of it."""
        if not next_version.rejects(self.job):
            return zip(self.batches, [None] * len(self.batches), strict=True)
        return zip(self.batches, self.choice.rejected, strict=True)

    def clips(self, columns: Sequence[str]) -> pa.Table:
        """These columns of `published_columns.row_schema`, with splits and speakers, for the clips
        that would be packaged, pending ones included, in the order of the hashes of their ids."""
        clips = self.choice.clips
        if not len(clips.row):
            return published_columns.row_schema(self.job).empty_table().select(columns)
        names = [*dict.fromkeys((*columns, "dataset"))]
        rows = next_version.rows_of(self.batches, clips.row, names)
        return self.choice.named(rows, clips.split).select(columns)

    @property
    def count(self) -> int:
        """The number of rows that may be packaged."""
        return int(next_version.first_rows(self.batches)[-1])

    def rows(self, columns: Sequence[str], wanted: Bools) -> Iterator[pa.Table]:
        """These columns of the `wanted` rows (bool [rows]), a batch at a time, with the splits and
        speakers of those that would be packaged."""
        clips, begins = self.choice.clips, next_version.first_rows(self.batches)
        split = np.zeros(self.count, np.int32)
        split[clips.row] = clips.split
        for batch, a, b in zip(self.batches, begins[:-1], begins[1:], strict=True):
            if wanted[a:b].any():
                rows = batch.table("rows.arrow", (*columns, "dataset"))
                rows = self.choice.named(rows, split[a:b]).select(columns)
                yield rows.filter(pa.array(wanted[a:b]))

    def utterances(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns of `limits.outcomes_schema` for all utterances, a batch at a time, with
        the outcomes by corpus-wide rules, which may reject pending utterances, too."""
        for batch, rejected in self._with_rejected():
            yield batch.utterances(columns, rejected)

    def ledger(self) -> Iterator[pa.Table]:
        """The ledger, a batch at a time; each batch has whole recordings, in order."""
        for batch, rejected in self._with_rejected():
            yield shard_batches.in_order(batch.ledger(rejected=rejected))


@contextmanager
def version(
    job: Job,
    shards: Sequence[str],
    listings: Listings | None = None,
    index: Index | None = None,
    decided: Mapping[Path, ShardBatch] | None = None,
) -> Iterator[Foreseen]:
    """The next version of some shards. `listings`: by shard, the recordings that sources list now,
    for shards whose listing in OUT is outdated; `index`: a listing of OUT, if there is one;
    `decided`: `UpToDate.decided`."""
    listings, decided = listings or {}, decided or {}
    keys = fact_keys(job, shards, index or Index(job.out))
    with temporary.scratch() as scratch, owners.naming(scratch.parent):
        batches = []
        kept = {*shard_batches.kept_in(job.out)} if job.only is None else set[str]()
        for batch in shard_batches.of_shards(job, keys):
            if not any(listings.get(shard, [shard]) for shard in batch.shards):
                continue  # all of its recordings have left their sources
            stays = batch.home.name in kept and not listings.keys() & {*batch.shards}
            batch = decided.get(batch.home, batch)
            if not stays or not (batch.decided or batch.holds(job)) or not batch.is_sound():
                batch = ShardBatch(scratch / shard_batches.FACTS / batch.home.name, batch.shards)
                batch_outcomes.collect(job, batch, strict=False, listings=listings)
            batches.append(batch)
        yield Foreseen(job, scratch, batch_outcomes.decide(job, batches, scratch, strict=False)[0])


def unpublished(job: Job, shards: Sequence[str], others: bool = False) -> Iterator[pa.Table]:
    """The ledger of the work done so far, where the last run has published nothing: packaged is
    only what OUT's newest version holds; what is to be packaged and no version holds is PENDING. A
    detail says what the newest version holds and the next one would not; with `others`, also rows
    of clips of recordings that have left their sources, or are cut anew."""
    newest = versions.newest(job.out)

    def published(columns: Sequence[str] | None) -> Iterator[tuple[pa.Table, UInt64s]]:
        table = newest / LEDGER_FILE if newest else None
        for rows in tables.row_groups(table, columns) if table else ():
            rows = rows.filter(pc.equal(rows["outcome"], "packaged"))
            yield rows, _keys(rows["utterance"])

    def with_detail(rows: pa.Table, which: pa.Array | pa.Scalar, note: str) -> pa.Table:
        if newest is None:
            return rows
        whole = f"{newest.name} {note}"
        longer = pc.binary_join_element_wise(rows["detail"], whole, "; ", null_handling="skip")
        return tables.replaced(rows, "detail", pc.if_else(which, longer, rows["detail"]))

    keys = [np.zeros(0, np.uint64), *(keys for _, keys in published(["utterance", "outcome"]))]
    in_newest = np.unique(np.concatenate(keys))
    listed = np.zeros(len(in_newest), bool)
    with version(job, shards) as whole:
        for rows in whole.ledger():
            places = sorted_keys.index_in(in_newest, _keys(rows["utterance"].fill_null("")))
            in_version = places >= 0
            listed[places[in_version]] = True
            packaged = pc.equal(rows["outcome"], "packaged").to_numpy()
            waits = pa.array(packaged & ~in_version)
            for name, value in (("outcome", PENDING), ("reason", NOT_PUBLISHED)):
                rows = tables.replaced(rows, name, pc.if_else(waits, value, rows[name]))
            yield with_detail(rows, pa.array(in_version & ~packaged), "still holds it")
    for rows, names in published(None) if others else ():
        gone = rows.filter(pa.array(~listed[sorted_keys.index_in(in_newest, names)]))
        yield with_detail(gone, pa.scalar(True), "holds it, and the next version would not")


def _keys(utterances: pa.ChunkedArray) -> UInt64s:
    return sorted_keys.draws("utterance", utterances.to_pylist())
