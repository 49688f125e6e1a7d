"""Corpus-wide rejections: by plug-ins, weights, hours per speaker and splits.

A clip is identified by the number of its row (`corpus_clips`). Rejections are saved by batch, so
that they are never all in memory as Python objects.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import corpus, storage
from ...base.json_types import JsonObject
from ...corpus import rejections
from ...corpus.rejections import OfCorpus
from ...settings.job import Job
from ...storage import tables, versions
from ..outcomes.shard_batches import ShardBatch
from . import selection
from .corpus_clips import first_rows

#: Corpus-wide rejections as outcomes, each with the number of its clip's shard batch.
SAVED = pa.schema([*rejections.OUTCOMES, ("batch", pa.int32())])
FILE = "verdicts.arrow"


def corpus_wide(job: Job, batches: Sequence[ShardBatch], newest: Path | None) -> OfCorpus:
    """Rejections over the whole corpus; `at` is the clip's place among all rows."""
    frozen: JsonObject = versions.described(newest)["frozen"] if newest else {}
    if not corpus.takes_part(job):
        return OfCorpus(rejections.REJECTED.empty_table(), frozen, [])
    published = selection.PublishedIds(job, newest).holding

    def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
        return (batch.table("heard.arrow", columns).select(columns) for batch in batches)

    rejected, frozen, test_sets = rejections.of_corpus(job, parts, published, frozen)
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


def save(scratch: Path, batches: Sequence[ShardBatch], rejected: pa.Table) -> None:
    """Save the rejections (REJECTED) as a record batch (SAVED) for each shard batch that has
    any."""
    begins = first_rows(batches)
    rejected = rejected.take(np.argsort(rejected["at"].to_numpy(), kind="stable"))
    place = rejected["at"].to_numpy()
    edges = np.searchsorted(place, begins)
    with storage.of(scratch).writing(scratch) as home, tables.writing(home / FILE, SAVED) as out:
        for number in np.flatnonzero(np.diff(edges)).tolist():
            some = rejected.slice(int(edges[number]), int(edges[number + 1] - edges[number]))
            rows = some["at"].to_numpy() - begins[number]
            ids = batches[number].table("rows.arrow", ("id",))["id"].take(rows)
            table = rejections.outcomes_of(ids, some)
            table = table.append_column("batch", pa.array(np.full(len(some), number, np.int32)))
            [record_batch] = table.cast(SAVED).combine_chunks().to_batches()
            out.write_batch(record_batch)


def by_batch(
    scratch: Path, batches: Sequence[ShardBatch]
) -> Iterator[tuple[ShardBatch, pa.Table | None]]:
    """Each shard batch with its rejections (OUTCOMES), or None if it has none."""
    saved = tables.arrow_batches(scratch / FILE)
    following = next(saved, None)
    for number, batch in enumerate(batches):
        outcomes = None
        if following is not None and following["batch"][0].as_py() == number:
            outcomes = pa.Table.from_batches([following]).drop_columns(["batch"])
            following = next(saved, None)
        yield batch, outcomes
