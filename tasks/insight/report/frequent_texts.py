"""The texts that most packaged clips have, near-equal ones as one: prompts, adverts, jingles."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.schema import UTTERANCES_FILE
from tasks.scoring import near_texts
from tasks.storage import queries, tables

MOST = 20  # that are shown
LONGEST = 200  # characters of each


class FrequentText(NamedTuple):
    text: str  # as texts are compared; of near-equal ones, that of most clips
    clips: int
    seconds: float
    different: int  # near-equal texts


def of_version(version: Path | None, memory: str = queries.MEMORY) -> list[FrequentText]:
    """Texts of several clips, the most frequent first; none without a version. Beyond `memory`,
    tables lie in temporary files."""
    if version is None:
        return []
    columns = ("normalised", "num_samples", "sample_rate")
    if not {*columns} <= {*tables.schema(version / UTTERANCES_FILE).names}:
        return []  # made by a release that had no such column

    def parts() -> Iterator[pa.Table]:
        return tables.row_groups(version / UTTERANCES_FILE, columns)

    number = near_texts.groups((part["normalised"] for part in parts()), memory)
    first = 0
    with queries.tables(memory) as database:
        database.execute("CREATE TABLE clips (text VARCHAR, us BIGINT, number BIGINT)")
        for part in parts():
            some = slice(first, first := first + len(part))
            seconds = pc.divide(pc.cast(part["num_samples"], pa.float64()), part["sample_rate"])
            us = pc.cast(pc.round(pc.multiply(seconds, 1e6)), pa.int64())
            clips = pa.table({"text": part["normalised"], "us": us, "number": number[some]})
            queries.add(database, "clips", clips)
        rows = database.execute(
            "WITH texts AS (SELECT number, text, count(*) AS clips, sum(us) AS us FROM clips "
            "WHERE number >= 0 GROUP BY number, text) "
            "SELECT first(text ORDER BY clips DESC, text) AS name, sum(clips), sum(us), count(*) "
            "FROM texts GROUP BY number HAVING sum(clips) > 1 ORDER BY 2 DESC, 3 DESC, 1 "
            f"LIMIT {MOST}"
        ).fetchall()
    return [
        FrequentText(_short(text), int(clips), int(us) / 1e6, different)
        for text, clips, us, different in rows
    ]


def _short(text: str) -> str:
    return text if len(text) <= LONGEST else f"{text[:LONGEST]} …"
