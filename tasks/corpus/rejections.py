"""Rejections by corpus-wide plug-ins, which see all transcribed utterances, a table at a time.

Their outcomes are entered into tables that were made before them. Deciding a shard's outcomes
again would cost as much as the first time, and weights affect every shard. In a recording without
overlapping spans, a rejection of one changes only that one's row.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from functools import cached_property
from itertools import islice
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks import corpus, plugins
from tasks.base.arrays import Bools, Float64s, Int64s
from tasks.base.json_types import JsonObject
from tasks.plugins.rules import Rejection
from tasks.settings.job import Job
from tasks.shard_store import decisions
from tasks.storage import queries, tables

#: What is rejected: the numbers of rows, or of clips, and why.
REJECTED = pa.schema(
    {
        "at": pa.int64(),
        "reason": pa.dictionary(pa.int16(), pa.string()),
        "value": pa.float64(),
        "threshold": pa.float64(),
        "detail": pa.large_string(),
    }
)
OUTCOME_COLUMNS = ("outcome", "stage", "reason", "value", "threshold", "detail")  # of an Outcome
#: Outcomes as a table: whose they are, and OUTCOME_COLUMNS.
OUTCOMES = pa.schema(
    {
        "id": pa.string(),
        **dict.fromkeys(("outcome", "stage", "reason"), pa.string()),
        **dict.fromkeys(("value", "threshold"), pa.float64()),
        "detail": pa.string(),
    }
)
AT_ONCE = 1 << 16  # rejections that are Python's at once

RowTables = Callable[[Sequence[str]], Iterable[pa.Table]]  # of these columns of ROW


class TranscribedRows:
    """Rows of the contract: three bytes of each are in memory.

    `published` says which of some ids are in the newest version; it is asked only if a rule asks.
    Rows with the ids `spared` are never rejected.
    """

    def __init__(
        self,
        parts: RowTables,
        published: Callable[[pa.ChunkedArray], Bools],
        spared: Collection[str] = (),
        memory: str = queries.MEMORY,
        scratch: Path | None = None,
    ) -> None:
        self._parts, self._known = parts, published
        self.memory, self.scratch = memory, scratch
        apart = pa.array(list(spared), pa.string())
        kept, kept_apart = [np.zeros(0, bool)], [np.zeros(0, bool)]
        for table in parts(["id", "kept"] if apart else ["kept"]):
            kept.append(table["kept"].to_numpy())
            flags = pc.is_in(table["id"], apart).to_numpy() if apart else np.zeros(len(table), bool)
            kept_apart.append(flags)
        self.kept, self._spared = np.concatenate(kept), np.concatenate(kept_apart)

    def __len__(self) -> int:
        return len(self.kept)

    @cached_property
    def _published(self) -> Bools:
        flags = (self._known(table["id"]) for table in self._parts(["id"]))
        return np.concatenate([np.zeros(0, bool), *flags])

    def published(self, numbers: Int64s) -> Bools:
        """Whether these rows, in their order, are in the newest version."""
        flags = [np.zeros(0, bool)]
        begin = 0
        for table in self._parts(["id"]):
            low, high = np.searchsorted(numbers, [begin, begin + len(table)])
            if low < high:
                flags.append(self._known(table["id"].take(numbers[low:high] - begin)))
            begin += len(table)
        return np.concatenate(flags)

    def tables(self, *columns: str) -> Iterator[pa.Table]:
        """These columns of ROW, with the rejections so far."""
        computed = {"kept": self.kept}
        if "published" in columns:
            computed["published"] = self._published
        stored = [name for name in columns if name not in computed]
        begin = 0
        for table in self._parts(stored or ["kept"]):
            rows = slice(begin, begin + len(table))
            begin = rows.stop
            arrays = {
                n: pa.array(computed[n][rows]) if n in computed else table[n] for n in columns
            }
            yield pa.table(arrays)

    def by_id(self) -> Int64s:
        """The numbers of the rows in the order of ids."""
        ids = (table["id"] for table in self.tables("id"))
        return queries.order(ids, self.memory, self.scratch)

    def reject(self, rejections: Iterable[tuple[int, Rejection]]) -> Iterator[pa.Table]:
        """Reject these rows, apart from spared ones; returns REJECTED, in the order of rows."""
        rest = iter(rejections)
        while some := list(islice(rest, AT_ONCE)):
            table = _table_of(some)
            table = table.filter(pa.array(~self._spared[table["at"].to_numpy()]))
            self.kept[table["at"].to_numpy()] = False
            yield table


def _table_of(rejections: Sequence[tuple[int, Rejection]]) -> pa.Table:
    """REJECTED."""
    rows = [(row, no.reason, no.value, no.threshold, no.detail or None) for row, no in rejections]
    columns = zip(*rows, strict=True)
    arrays = [pa.array(values, kind) for values, kind in zip(columns, REJECTED.types, strict=True)]
    return pa.table(arrays, schema=REJECTED)


def rejected(
    rows: NDArray[np.integer],
    reason: str,
    values: Float64s | None = None,
    thresholds: Float64s | None = None,
    details: pa.Array | None = None,
) -> pa.Table:
    """A table (REJECTED) with one reason for all rows."""
    codes = pa.array(np.zeros(len(rows), np.int16))
    columns = {
        "at": pa.array(rows, pa.int64()),
        "reason": pa.DictionaryArray.from_arrays(codes, pa.array([reason])),
        "value": pa.nulls(len(rows)) if values is None else values,
        "threshold": pa.nulls(len(rows)) if thresholds is None else thresholds,
        "detail": pa.nulls(len(rows)) if details is None else details,
    }
    return pa.table(columns).cast(REJECTED)


def of_corpus(
    job: Job, parts: RowTables, published: Callable[[pa.ChunkedArray], Bools], frozen: JsonObject
) -> tuple[pa.Table, JsonObject]:
    """Rejections (REJECTED) of rows of `parts`, and the frozen state of each plug-in, by
    `shelf.name`."""
    spared = [key for key, decision in decisions.of(job).items() if decision.keeps]
    rows = TranscribedRows(parts, published, spared, job.package.memory, job.scratch)
    rejections = [REJECTED.empty_table()]
    # Also of plug-ins that are not used now.
    kept_frozen = {} if job.package.refit else dict(frozen)
    for shelf, plugin in corpus.chosen(job):
        name = f"{shelf}.{plugin.use}"
        module, settings = plugins.measuring(shelf).resolve(plugin)
        before = kept_frozen.get(name, {})
        assert module.reject is not None  # `chosen` asked
        why, freezes = module.reject(rows, settings, before)
        if freezes is not None:
            kept_frozen[name] = freezes
        rejections += rows.reject(why)
    return pa.concat_tables(rejections), kept_frozen


def outcomes_of(ids: pa.Array | pa.ChunkedArray, rejected: pa.Table) -> pa.Table:
    """Outcomes of `package` in columns: rejections (REJECTED) of these ids."""
    columns = {name: rejected[name] for name in ("reason", "value", "threshold", "detail")}
    columns |= {"id": ids, "stage": pa.array(["package"] * len(ids), pa.string())}
    columns["outcome"] = pa.array(["dropped"] * len(ids), pa.string())
    return pa.table({name: columns[name] for name in OUTCOMES.names}).cast(OUTCOMES)


def entered(table: pa.Table, key: str, outcomes: pa.Table) -> pa.Table:
    """The table with these outcomes of its packaged rows; `key` names the column of ids."""
    if not outcomes.num_rows or not table.num_rows:
        return table
    place = pc.index_in(table[key], outcomes["id"])
    hit = pc.and_(pc.is_valid(place), pc.equal(table["outcome"], "packaged"))
    if not pc.any(hit).as_py():
        return table
    for name in OUTCOME_COLUMNS:
        if name not in table.column_names:
            continue
        new = pc.if_else(hit, outcomes[name].take(place), table[name])
        table = tables.replaced(table, name, new)
    return table


def overlapping(ledger: pa.Table) -> pa.Array:
    """Recordings with overlapping spans, where a rejection moves samples to another span."""
    return pc.unique(ledger["recording"].filter(pc.greater(ledger["overlap_samples"], 0)))
