"""Corpus-wide verdicts entered into tables that were made before them.

Deciding a shard again costs as much as deciding it the first time, and weights touch every shard.
Where the spans of a recording do not overlap, a verdict on one changes only its own row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

from tasks.corpuswide import Verdicts

COLUMNS = ("outcome", "stage", "reason", "value", "threshold", "detail")  # of an Outcome


def enter(table: pa.Table, key: str, verdicts: Verdicts) -> pa.Table:
    """The table with the outcomes of those rows that were packaged so far; `key` names the column
    of ids."""
    if not verdicts:
        return table
    at = pc.index_in(table[key], pa.array(list(verdicts), pa.string()))
    hit = pc.and_(pc.is_valid(at), pc.equal(table["outcome"], "packaged"))
    for name in COLUMNS:
        if name not in table.column_names:
            continue
        field = table.schema.field(name)
        values = [getattr(verdict, name) for verdict in verdicts.values()]
        if name == "detail":
            values = [text or None for text in values]
        new = pc.if_else(hit, pa.array(values, field.type).take(at), table[name])
        table = table.set_column(table.column_names.index(name), field, new)
    return table


def overlapping(ledger: pa.Table) -> pa.Array:
    """Recordings with overlapping spans: a verdict there moves samples from one span to another."""
    return pc.unique(ledger["recording"].filter(pc.greater(ledger["overlap_samples"], 0)))
