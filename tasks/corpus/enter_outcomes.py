"""Enters the outcomes of corpus-wide rejections into tables that were made before them.

Deciding a shard's outcomes again would cost as much as the first time, and weights affect every
shard. In a recording without overlapping spans, a rejection of one changes only that one's row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = ("outcome", "stage", "reason", "value", "threshold", "detail")  # of an Outcome


#: Outcomes as a table: whose they are, and COLUMNS.
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        **dict.fromkeys(("outcome", "stage", "reason"), pa.string()),
        **dict.fromkeys(("value", "threshold"), pa.float64()),
        "detail": pa.string(),
    }
)


def of_rejected(ids: pa.Array | pa.ChunkedArray, rejected: pa.Table) -> pa.Table:
    """Outcomes of `package` in columns: rejections (`rejections.REJECTED`) of these ids."""
    columns = {name: rejected[name] for name in ("reason", "value", "threshold", "detail")}
    columns |= {"id": ids, "stage": pa.array(["package"] * len(ids), pa.string())}
    columns["outcome"] = pa.array(["dropped"] * len(ids), pa.string())
    return pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA)


def entered(table: pa.Table, key: str, outcomes: pa.Table) -> pa.Table:
    """The table with these outcomes of its packaged rows; `key` names the column of ids."""
    if not outcomes.num_rows or not table.num_rows:
        return table
    place = pc.index_in(table[key], outcomes["id"])
    hit = pc.and_(pc.is_valid(place), pc.equal(table["outcome"], "packaged"))
    if not pc.any(hit).as_py():
        return table
    for name in COLUMNS:
        if name not in table.column_names:
            continue
        field = table.schema.field(name)
        new = pc.if_else(hit, outcomes[name].take(place), table[name])
        table = table.set_column(table.column_names.index(name), field, new)
    return table


def overlapping(ledger: pa.Table) -> pa.Array:
    """Recordings with overlapping spans, where a rejection moves samples to another span."""
    return pc.unique(ledger["recording"].filter(pc.greater(ledger["overlap_samples"], 0)))
