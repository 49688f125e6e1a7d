"""The texts that most packaged clips have: prompts, adverts, jingles."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.schema import UTTERANCES_FILE
from tasks.storage import queries, tables

MOST = 20  # that are shown
LONGEST = 200  # characters of each


class FrequentText(NamedTuple):
    text: str  # as texts are compared
    clips: int
    seconds: float


def of_version(version: Path | None, memory: str = queries.MEMORY) -> list[FrequentText]:
    """Texts of several clips, the most frequent first; none without a version."""
    if version is None:
        return []
    columns = ("normalised", "num_samples", "sample_rate")
    if not {*columns} <= {*tables.schema(version / UTTERANCES_FILE).names}:
        return []  # made by a release that had no such column
    with queries.tables(memory) as database:
        database.execute("CREATE TABLE clips (text VARCHAR, us BIGINT)")
        for part in tables.row_groups(version / UTTERANCES_FILE, columns):
            seconds = pc.divide(pc.cast(part["num_samples"], pa.float64()), part["sample_rate"])
            us = pc.cast(pc.round(pc.multiply(seconds, 1e6)), pa.int64())
            queries.add(database, "clips", pa.table({"text": part["normalised"], "us": us}))
        rows = database.execute(
            "SELECT text, count(*), sum(us) FROM clips WHERE text <> '' GROUP BY text "
            f"HAVING count(*) > 1 ORDER BY 2 DESC, 3 DESC, 1 LIMIT {MOST}"
        ).fetchall()
    return [FrequentText(_short(text), clips, int(us) / 1e6) for text, clips, us in rows]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
