"""The ledger of a version, portion by portion: recordings whose hashes lie in one range.

A portion never depends on work shards, so a version has the same bytes however they were grouped. A
ledger of one portion is the file `ledger.parquet`; of several, a folder of parts of that name.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from tasks import storage
from tasks.accounting import broken, summary
from tasks.accounting import ledger as accounts
from tasks.accounting.broken import Broken
from tasks.accounting.summary import REMOVED
from tasks.corpuswide import outcomes
from tasks.dataset.proved import Proved
from tasks.job import Job
from tasks.packaging import canonical, decided, ledger_notes, safeguards, whole
from tasks.packaging.decided import SLOT
from tasks.packaging.ledger_notes import Portion
from tasks.schema import LEDGER
from tasks.storage import tables
from tasks.storage.atomic import HashedFile

FILE = "ledger.parquet"


def count_for(rows: int, most: int) -> int:
    """Portions of a ledger with so many rows: a power of two, each of about `most` rows."""
    return 1 if rows <= most else 1 << (-(-rows // most) - 1).bit_length()


def name_of(number: int, count: int) -> str:
    """The file of a portion, in the version."""
    return FILE if count == 1 else f"{FILE}/part-{number:05d}.parquet"


def calls(count: int) -> list[range]:
    """The portions that each worker call writes: those of one slice of what was decided, so that
    each slice is read once."""
    each = max(count // decided.SLICES, 1)
    return [range(first, first + each) for first in range(0, count, each)]


def write(
    job: Job,
    scratch: Path,
    numbers: range,
    count: int,
    judged: bool,
    staging: Path,
    newest: Path | None,
) -> None:
    """On a worker: write these portions of `count` into the staging folder, and note in `scratch`
    what became of them. `judged`: there are corpus-wide verdicts."""
    slices = range(
        numbers.start * decided.SLICES // count, max(numbers.stop * decided.SLICES // count, 1)
    )
    groups = decided.listed(job, scratch)
    found = pa.concat_tables([SLOTTED_EMPTY, *(each.ledger(slices) for each in groups)])
    if judged:
        found = _judged(found, _verdicts(scratch / whole.JUDGED, slices))
    found = in_order(found)
    portion = decided.slice_of(found[SLOT].to_numpy(), count)
    found = found.drop_columns([SLOT])
    for number in numbers:
        own = found if len(numbers) == 1 else found.filter(pa.array(portion == number))
        _write(job, scratch, number, count, own, staging, newest)


def _write(
    job: Job,
    scratch: Path,
    number: int,
    count: int,
    found: pa.Table,
    staging: Path,
    newest: Path | None,
) -> None:
    left = _removed(found, number, count, newest) if newest else Left(0, [], LEDGER.empty_table())
    whole_table = pa.concat_tables([found, left.rows])
    name = name_of(number, count)
    with storage.of(staging).writing(staging, job.scratch) as home:
        target = home / name
        target.parent.mkdir(parents=True, exist_ok=True)
        with target.open("wb") as raw:
            file = HashedFile(raw)
            pq.write_table(whole_table, file, compression="zstd")
    digest = canonical.of_table(whole_table)
    file_is = (file.sha.hexdigest(), file.size)
    totals = summary.totals(whole_table)
    first = _broken(job, whole_table)
    told = Portion(totals, digest, left.before, left.gone, first, file_is)
    ledger_notes.note(scratch, number, told)


def _broken(job: Job, ledger: pa.Table) -> list[Broken]:
    free = pa.array(safeguards.exempt(job), pa.string())
    return broken.of_ledger(ledger.filter(pc.invert(pc.is_in(ledger["dataset"], free))))


SLOTTED_EMPTY = decided.SLOTTED.empty_table()


def _verdicts(path: Path, slices: range) -> pa.Table:
    """Those on utterances of some slices; a batch at a time, as there may be many."""
    with tables.arrow(path) as file:
        held = pa.ipc.open_file(file)
        found = [held.schema.empty_table()]
        for number in range(held.num_record_batches):
            batch = held.get_batch(number)
            own = decided.slice_of(batch[SLOT].to_numpy(), decided.SLICES)
            inside = (own >= slices.start) & (own < slices.stop)
            found.append(pa.Table.from_batches([batch.filter(pa.array(inside))]))
    return pa.concat_tables(found)


def _judged(table: pa.Table, verdicts: pa.Table) -> pa.Table:
    """The ledger with verdicts entered. Where spans overlap, samples move to another span."""
    if not verdicts.num_rows:
        return table
    overlapping = outcomes.overlapping(table)
    hit = pc.is_in(table["utterance"], verdicts["id"])
    moved = pc.unique(
        table["recording"].filter(pc.and_(hit, pc.is_in(table["recording"], overlapping)))
    )
    table = outcomes.entered(table, "utterance", verdicts)
    if not len(moved):
        return table
    inside = pc.is_in(table["recording"], moved)
    by_recording: dict[str, list[dict[str, Any]]] = {}
    for row in table.filter(inside).to_pylist():
        by_recording.setdefault(row["recording"], []).append(row)
    rows = [row for some in by_recording.values() for row in accounts.assigned_again(some)]
    again = pa.Table.from_pylist(rows, schema=table.schema)
    return pa.concat_tables([table.filter(pc.invert(inside)), again])


def in_order(table: pa.Table) -> pa.Table:
    """A ledger by recording, start, end and utterance."""
    if not table.num_rows:
        return table
    rank = _rank(table["recording"])
    start, end = table["start"].to_numpy(), table["end"].to_numpy()
    order = np.lexsort((end, start, rank))
    columns = [column[order] for column in (rank, start, end)]
    same = np.logical_and.reduce([column[1:] == column[:-1] for column in columns])
    if same.any():  # then the utterances decide
        by = [(name, "ascending") for name in ("recording", "start", "end", "utterance")]
        return table.take(pc.sort_indices(table, sort_keys=by))
    return table.take(order)


def _rank(column: pa.ChunkedArray) -> NDArray[np.int64]:
    """The place of each row's value among all values, sorted."""
    coded = column.combine_chunks().dictionary_encode()
    order = pc.sort_indices(coded.dictionary).to_numpy()
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    found: NDArray[np.int64] = rank[coded.indices.to_numpy(zero_copy_only=False)]
    return found


class Left(NamedTuple):
    """Recordings of the previous ledger that the sources no longer have."""

    before: int  # recordings that it has, without those that had left by then
    gone: list[str]  # those of them that have left since
    rows: pa.Table  # a row of no seconds for each that has ever left


def _removed(now: pa.Table, number: int, count: int, newest: Path) -> Left:
    """What one portion of the previous ledger has, and the sources no longer have."""
    there = pa.array(pc.unique(now["recording"]))
    live, gone = 0, list[pa.Table]()
    for table in portion_of(newest, number, count, ("recording", "reason")):
        first = table.filter(pa.array(_first_of_each(table["recording"])))
        live += int(pc.sum(pc.fill_null(pc.not_equal(first["reason"], REMOVED), True)).as_py() or 0)
        gone.append(first["recording"].filter(pc.invert(pc.is_in(first["recording"], there))))
    names = pa.chunked_array([chunk for each in gone for chunk in each.chunks], pa.string())
    if not len(names):
        return Left(live, [], LEDGER.empty_table())
    wanted = ("recording", "source_path", "dataset", "sample_rate", "reason")
    found = pa.concat_tables(
        table.filter(pc.is_in(table["recording"], pa.array(names)))
        for table in portion_of(newest, number, count, wanted)
    )
    found = found.filter(pa.array(_first_of_each(found["recording"])))
    found = found.take(pc.sort_indices(found["recording"]))
    nothing = {"start": 0.0, "end": 0.0, "samples": 0, "seconds": 0.0, "overlap_samples": 0}
    outcome = {"outcome": "dropped", "stage": "shard", "reason": REMOVED}
    rows = [{**row, **nothing, **outcome} for row in found.drop_columns(["reason"]).to_pylist()]
    fresh = found.filter(pc.fill_null(pc.not_equal(found["reason"], REMOVED), True))
    left: list[str] = fresh["recording"].to_pylist()
    return Left(live, left, pa.Table.from_pylist(rows, schema=LEDGER))


def _first_of_each(column: pa.ChunkedArray) -> NDArray[np.bool_]:
    """Whether a row is the first with its value, where equal ones stand together."""
    first = np.ones(len(column), bool)
    whole = column.combine_chunks()
    first[1:] = pc.not_equal(whole[1:], whole[:-1]).to_numpy(zero_copy_only=False)
    return first


def portion_of(version: Path, number: int, count: int, columns: Sequence[str]) -> list[pa.Table]:
    """Rows of one portion of `count`, of a published ledger with any number of portions. RunError
    where it is damaged."""
    proved = Proved(version)
    parts = tables.parts(version / FILE)
    held = len(parts)
    first, end = (
        number * held // count,
        max(-(-(number + 1) * held // count), number * held // count + 1),
    )
    found = []
    for part in parts[first:end]:
        for table in tables.row_groups(part, columns, proved):
            if held != count:
                inside = decided.slice_of(decided.slots(table["recording"]), count) == number
                table = table.filter(pa.array(inside))
            if table.num_rows:
                found.append(table)
    return found
