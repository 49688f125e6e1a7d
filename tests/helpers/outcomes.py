"""Rules over columns, as `what-if` and the report ask them of DuckDB."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from uttermill.tasks.corpus import limits
from uttermill.tasks.plugins.rules import Rule
from uttermill.tasks.storage import queries


def passing(table: pa.Table, rules: Sequence[Rule]) -> list[bool]:
    """Whether each row passes the rules."""
    table = table.append_column(limits.SPARED, pa.nulls(len(table), pa.bool_()))
    with queries.tables() as database:
        answer = queries.joined(database, table, f"SELECT {limits.passes(rules)} FROM given")
    passed: list[bool] = answer.column(0).to_pylist()
    return passed
