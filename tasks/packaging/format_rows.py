"""The columns of a version's rows as one format sees them."""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from tasks.checkpoints.manifest import Row
from tasks.plugins.contracts import Format
from tasks.settings import StageSettings


def with_derived(
    module: Format,
    settings: StageSettings,
    table: pa.Table,
    known: dict[str, pa.Array] | None = None,
) -> tuple[pa.Table, dict[str, pa.Array]]:
    """The table with the columns that a format derives, and the derived columns alone. `known`: the
    derived columns of a part of a version, since its rows alone do not determine them."""
    columns = module.derived(table, settings) if known is None else known
    for name, values in columns.items():
        table = table.append_column(name, values)
    return table, columns


def visible(module: Format, table: Any, *more: str) -> Any:
    """The columns that a format's files depend on, without measures that were not taken."""
    wanted = dict.fromkeys((*module.COLUMNS, *more))
    return table.select([name for name in wanted if name in table.schema.names])


def rows_for(module: Format, table: pa.Table | pa.RecordBatch, *more: str) -> list[Row]:
    """Rows as `write` and `check` get them."""
    rows: list[Row] = visible(module, table, "shard", "offset", *more).to_pylist()
    return rows
