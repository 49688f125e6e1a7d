"""Corpus-wide rejections: by plug-ins, weights, hours per speaker and splits.

Clips are known by their places among all rows, group by group. Verdicts are saved by group, so that
they are never all in memory as Python objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks import corpus, storage
from tasks.base.arrays import Bools, Int64s
from tasks.base.json_types import JsonObject
from tasks.corpus import enter_verdicts, verdicts
from tasks.publish import seeded_hash
from tasks.publish.choosing import selection
from tasks.publish.outcomes import recording_digests
from tasks.publish.outcomes.recording_digests import ACCOUNT, ACCOUNTED, KEY
from tasks.publish.outcomes.shard_groups import ShardGroup
from tasks.settings.job import Job
from tasks.storage import sorted_keys, tables, versions

#: The verdicts that come last, with their clips' keys in the ledger.
SAVED = pa.schema(
    [
        *enter_verdicts.SCHEMA,
        *((name, pa.uint64()) for name in (KEY, ACCOUNT, ACCOUNTED)),
        ("group", pa.int32()),
    ]
)
FILE = "verdicts.arrow"


def first_rows(groups: Sequence[ShardGroup]) -> Int64s:
    """The place of each group's first row among all rows, and their number."""
    return np.cumsum([0, *(each.facts["rows"] for each in groups)])


def corpus_wide(
    job: Job, groups: Sequence[ShardGroup], newest: Path | None
) -> tuple[pa.Table, JsonObject]:
    """Rejections (REJECTED), each with its clip's place among all rows; and the bounds that the
    next version freezes."""
    frozen: JsonObject = versions.described(newest)["frozen"] if newest else {}
    if not corpus.takes_part(job):
        return verdicts.REJECTED.empty_table(), frozen
    keys = [np.zeros((0, 2), np.uint64)]
    sizes = [0]
    known = selection.PublishedIds(job, newest)

    def published(ids: pa.ChunkedArray) -> Bools:
        keys.append(seeded_hash.keys(str(job.package.seed), ids.to_pylist()))
        sizes.append(len(ids))
        return known.among(keys[-1])

    def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
        return (each.table("heard.arrow", columns).select(columns) for each in groups)

    found, frozen = verdicts.judge(job, parts, published, frozen)
    at = found["at"].to_numpy()
    order = np.argsort(at, kind="stable")
    heard, rows = np.cumsum(sizes), first_rows(groups)
    edges = np.searchsorted(at, heard, sorter=order)
    for number, group in enumerate(groups):
        some = order[edges[number] : edges[number + 1]]
        if len(some):
            digests = group.table("digests.arrow", ("high", "low"))
            high, low = (digests[name].to_numpy() for name in ("high", "low"))
            by_key = np.lexsort((low, high))
            own = keys[number + 1][at[some] - heard[number]]
            place = sorted_keys.places_of(own[:, 0], own[:, 1], high[by_key], low[by_key])
            at[some] = np.where(place >= 0, rows[number] + by_key[place], -1)
    found = found.set_column(0, "at", pa.array(at))
    return found.filter(pc.greater_equal(found["at"], 0)), frozen


def save(scratch: Path, groups: Sequence[ShardGroup], rejected: pa.Table) -> list[int]:
    """Save SAVED from REJECTED, a batch for each group with any; returns their numbers."""
    begins = first_rows(groups)
    rejected = rejected.take(np.argsort(rejected["at"].to_numpy(), kind="stable"))
    place = rejected["at"].to_numpy()
    edges = np.searchsorted(place, begins)
    judged = np.flatnonzero(np.diff(edges)).tolist()
    with storage.of(scratch).writing(scratch) as home, tables.writing(home / FILE, SAVED) as out:
        for number in judged:
            some = rejected.slice(int(edges[number]), int(edges[number + 1] - edges[number]))
            rows = some["at"].to_numpy() - begins[number]
            group = groups[number]
            names = group.table("rows.arrow", ("id", "recording")).take(rows)
            table = enter_verdicts.of_rejected(names["id"], some)
            table = table.append_column(
                KEY, pa.array(recording_digests.keys_of(names["recording"]))
            )
            known = group.table("digests.arrow", (ACCOUNT, ACCOUNTED)).take(rows)
            for name in (ACCOUNT, ACCOUNTED):
                table = table.append_column(name, known[name])
            table = table.append_column("group", pa.array(np.full(len(some), number, np.int32)))
            [batch] = table.cast(SAVED).combine_chunks().to_batches()
            out.write_batch(batch)
    return judged
