"""Enters corpus-wide verdicts into tables that were made before them.

Judging a shard again would cost as much as the first time, and weights affect every shard. In a
recording without overlapping spans, a verdict on one changes only that one's row.
"""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

COLUMNS = ("outcome", "stage", "reason", "value", "threshold", "detail")  # of an Outcome


#: Verdicts as a table: whose they are, and COLUMNS.
SCHEMA = pa.schema(
    {
        "id": pa.string(),
        **dict.fromkeys(("outcome", "stage", "reason"), pa.string()),
        **dict.fromkeys(("value", "threshold"), pa.float64()),
        "detail": pa.string(),
    }
)


def of_rejected(ids: pa.Array | pa.ChunkedArray, rejected: pa.Table) -> pa.Table:
    """Verdicts of `package` in columns: rejections (`judging.REJECTED`) of these ids."""
    columns = {name: rejected[name] for name in ("reason", "value", "threshold", "detail")}
    columns |= {"id": ids, "stage": pa.array(["package"] * len(ids), pa.string())}
    columns["outcome"] = pa.array(["dropped"] * len(ids), pa.string())
    return pa.table({name: columns[name] for name in SCHEMA.names}).cast(SCHEMA)


def entered(table: pa.Table, key: str, verdicts: pa.Table) -> pa.Table:
    """The table with these verdicts on its packaged rows; `key` names the column of ids."""
    if not verdicts.num_rows or not table.num_rows:
        return table
    place = pc.index_in(table[key], verdicts["id"])
    hit = pc.and_(pc.is_valid(place), pc.equal(table["outcome"], "packaged"))
    if not pc.any(hit).as_py():
        return table
    for name in COLUMNS:
        if name not in table.column_names:
            continue
        field = table.schema.field(name)
        new = pc.if_else(hit, verdicts[name].take(place), table[name])
        table = table.set_column(table.column_names.index(name), field, new)
    return table


def overlapping(ledger: pa.Table) -> pa.Array:
    """Recordings with overlapping spans, where a verdict moves samples from one span to another."""
    return pc.unique(ledger["recording"].filter(pc.greater(ledger["overlap_samples"], 0)))
