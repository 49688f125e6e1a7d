"""Texts that several clips have, such as prompts, adverts and jingles; near-equal texts count as
one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from ..base.schema import UTTERANCES_FILE
from ..scoring import near_texts
from ..storage import queries, tables

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

NAMED = 20  # texts of a group that are listed

#: For each group of texts (`near_texts.groups`) that several clips have, the most frequent first:
#: the text that most of its clips have, how many `different` ones there are, the first of them,
#: its clips (`items`) with their hours, and how many groups there are in all (`kinds`).
_FREQUENT = """
WITH variants AS (SELECT number, text, count(*) AS n, fsum(seconds) / 3600 AS length,
    coalesce(fsum(seconds) FILTER (outcome = 'packaged'), 0) / 3600 AS kept
    FROM ({clips}) WHERE number >= 0 GROUP BY number, text)
SELECT first(text ORDER BY n DESC, text) AS name, count(*) AS different,
    list(text ORDER BY n DESC, text)[:{named}] AS same, sum(n)::BIGINT AS items,
    sum(length) AS hours, sum(kept) AS kept_hours, count(*) OVER () AS kinds
FROM variants GROUP BY number HAVING sum(n) > 1 ORDER BY items DESC, name LIMIT {most}
"""


def of_clips(database: DuckDBPyConnection, clips: str, most: int) -> list[dict[str, Any]]:
    """The `most` frequent texts. `clips`: SQL of `text`, `number` of its group, `seconds` and
    `outcome`."""
    sql = _FREQUENT.format(clips=clips, named=NAMED, most=most)
    rows: list[dict[str, Any]] = database.sql(sql).to_arrow_table().to_pylist()
    return rows


def of_version(version: Path, most: int, memory: str) -> list[dict[str, Any]]:
    """`of_clips` of all clips of a version. The database uses up to `memory`, then temporary
    files."""

    def parts() -> Iterator[pa.Table]:
        columns = ("normalised", "num_samples", "sample_rate")
        return tables.row_groups(version / UTTERANCES_FILE, columns)

    number = near_texts.groups((part["normalised"] for part in parts()), memory)
    first = 0
    with queries.tables(memory) as database:
        database.execute(
            "CREATE TABLE clips (normalised VARCHAR, num_samples BIGINT, sample_rate INT, "
            "number BIGINT)"
        )
        for part in parts():
            some, first = number[first : first + len(part)], first + len(part)
            queries.add(database, "clips", part.append_column("number", pa.array(some)))
        clips = (
            "SELECT normalised AS text, number, num_samples / sample_rate AS seconds, "
            "'packaged' AS outcome FROM clips"
        )
        return of_clips(database, clips, most)
