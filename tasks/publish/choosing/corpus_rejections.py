"""Corpus-wide rejections: by plug-ins, weights, hours per speaker and splits.

A clip is identified by the number of its row (`corpus_clips`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import corpus
from ...base.json_types import JsonObject
from ...corpus import rejections
from ...corpus.rejections import OfCorpus
from ...settings.job import Job
from ...storage import versions
from ..outcomes.shard_batches import ShardBatch
from .corpus_clips import first_rows
from .selection import PublishedIds


def corpus_wide(
    job: Job, batches: Sequence[ShardBatch], newest: Path | None, published: PublishedIds
) -> OfCorpus:
    """Rejections over the whole corpus; `at` is the clip's place among all rows."""
    frozen: JsonObject = versions.described(newest)["frozen"] if newest else {}
    if not corpus.takes_part(job):
        return OfCorpus(rejections.REJECTED.empty_table(), frozen, [])

    def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
        return (batch.table("heard.arrow", columns).select(columns) for batch in batches)

    rejected, frozen, test_sets = rejections.of_corpus(job, parts, published.holding, frozen)
    heard = rejected["at"].to_numpy()
    order, position = np.argsort(heard, kind="stable"), heard.copy()
    rows, begin = first_rows(batches), 0
    for number, ids in enumerate(parts(["id"]) if len(order) else ()):
        low, high = np.searchsorted(heard, [begin, begin + len(ids)], sorter=order)
        some = order[low:high]
        if len(some):
            passed = batches[number].table("rows.arrow", ("id",))["id"]
            place = pc.index_in(ids["id"].take(heard[some] - begin), passed).fill_null(-1)
            position[some] = np.where(pc.less(place, 0), -1, rows[number] + place.to_numpy())
        begin += len(ids)
    rejected = rejected.set_column(0, "at", pa.array(position))
    return OfCorpus(rejected.filter(pc.greater_equal(rejected["at"], 0)), frozen, test_sets)


def by_batch(batches: Sequence[ShardBatch], rejected: pa.Table) -> list[pa.Table | None]:
    """The rejections (REJECTED) of each shard batch as OUTCOMES, or None if it has none."""
    begins = first_rows(batches)
    rejected = rejected.take(np.argsort(rejected["at"].to_numpy(), kind="stable"))
    place = rejected["at"].to_numpy()
    edges = np.searchsorted(place, begins).tolist()
    outcomes: list[pa.Table | None] = []
    for batch, begin, low, high in zip(batches, begins[:-1], edges[:-1], edges[1:], strict=True):
        if low == high:
            outcomes.append(None)
            continue
        ids = batch.table("rows.arrow", ("id",))["id"].take(place[low:high] - begin)
        outcomes.append(rejections.outcomes_of(ids, rejected.slice(low, high - low)))
    return outcomes
