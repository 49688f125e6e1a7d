"""Chooses the clips of the next version: corpus-wide rejections, then hours per speaker and splits.

Runs in one process with about 40 bytes a clip in memory; the rows stay on disk. A row's number
counts the rows of all shard batches, batch by batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ... import storage
from ...base.arrays import Bools, Float64s, Int16s, Int32s, Int64s, UInt64s
from ...base.errors import RunError
from ...base.json_types import HeldOutSet, JsonObject
from ...base.logs import log
from ...settings.job import Job
from ...settings.package import REST
from ...shard_store import clip_choice, source_languages
from ...storage import tables, versions
from .. import corpus, speakers
from ..corpus import rejections
from ..corpus.rejections import OfCorpus
from ..outcomes.shard_batches import LIMITS, ShardBatch
from ..speakers import Speakers
from . import selection, split_input, splits
from .selection import Parted
from .split_input import ListDescriptions


class CorpusClips(NamedTuple):
    """Clips that passed the rules of their own shards, sorted by the hash of their ids."""

    high: UInt64s  # first half of the hash of the id
    low: UInt64s  # second half
    seconds: Float64s
    row: Int32s  # number of the row
    speaker: Int32s  # index of the name of a speaker across recordings; -1: the row's own name
    split: Int16s  # index into the names of splits; -1: not packaged

    def take(self, which: Any) -> CorpusClips:
        return CorpusClips(*(column[which] for column in self))


@dataclass(frozen=True, slots=True)
class Choice:
    clips: CorpusClips
    names: list[str]  # of splits
    rejected: list[pa.Table | None]  # OUTCOMES of corpus-wide rejections, of each shard batch
    linked: Speakers | None  # None: the settings link no speakers across recordings
    frozen: JsonObject  # bounds of corpus-wide rules, for dataset.json
    split_lists: ListDescriptions  # for dataset.json
    test_sets: list[HeldOutSet]  # of package.exclude, for dataset.json
    parted: Parted | None  # what splits do to the newest version's clips; None: no splits

    def named(self, rows: pa.Table, split: NDArray[Any], speaker: Int32s) -> pa.Table:
        """The rows of clips with their splits and the names of speakers across recordings, as far
        as they have these columns; `split`, `speaker`: as in CorpusClips."""
        if "split" in rows.column_names:
            sides = pa.array(self.names).take(pa.array(split))
            rows = tables.replaced(rows, "split", sides)
        if self.linked and "speaker" in rows.column_names:
            rows = self.linked.numbered(rows, speaker)
        return rows


def rejects(job: Job) -> bool:
    """Whether the settings may reject clips that pass the limits."""
    return corpus.takes_part(job) or selection.selects(job)


def choose(job: Job, scratch: Path, batches: Sequence[ShardBatch]) -> Choice:
    """Choose among the utterances of decided batches. Saves the tables of splits and of speakers
    across recordings in `scratch`. Raises RunError if two clips have the same id."""
    newest = versions.newest(job.out)

    def voices() -> Iterator[pa.Table]:
        return (batch.table("voices.arrow") for batch in batches)

    linked = speakers.link(job, voices, newest, scratch)
    published = selection.PublishedIds(job, newest)
    rejected, frozen, test_sets = _corpus_wide(job, batches, newest, published)
    if (spoken := source_languages.of_job(job)) or source_languages.FROZEN in frozen:
        frozen = {**frozen, source_languages.FROZEN: dict(spoken)}
    split = np.zeros(first_rows(batches)[-1], np.int16)  # of all rows
    split[rejected["at"].to_numpy()] = -1
    names, lists, parted = [REST], ListDescriptions(), None
    if selection.selects(job):
        is_open = split >= 0
        with split_input.Candidates(job.package, job.scratch) as passed:
            # What `package.only` and `without` ask of all clips, also of those left out already.
            for batch in batches if clip_choice.restricts(job.package) else ():
                passed.chosen_by.add(batch.table(LIMITS, (*clip_choice.COLUMNS, "labels")))
            _add_open(job, passed, batches, is_open, linked, published)
            for sentence in passed.chosen_by.unmatched():
                log.warning("%s", sentence)
            selected = selection.select(job, passed, newest)
            if selected.splits is not None:
                with storage.store_of(scratch).writing(scratch) as home:
                    tables.write_arrow(home / splits.FILE, selected.splits())
        names, lists, parted = selected.names, selected.lists, selected.parted
        open_rows = np.flatnonzero(is_open)
        split[open_rows] = -1
        split[open_rows[selected.rows]] = selected.split
        places = pa.array(open_rows[selected.rejected["at"].to_numpy()])
        rejected = pa.concat_tables([rejected, selected.rejected.set_column(0, "at", places)])
        del is_open, open_rows, passed, selected, places
    else:
        selection.warn_of_lost_splits(newest)
    outcomes = _by_batch(batches, rejected)
    del rejected
    clips = _clips(batches, split, linked)
    clips = clips.take(clips.split >= 0)
    return Choice(clips, names, outcomes, linked, frozen, lists, test_sets, parted)


def _add_open(
    job: Job,
    clips: split_input.Candidates,
    batches: Sequence[ShardBatch],
    is_open: Bools,
    linked: Speakers | None,
    published_ids: selection.PublishedIds,
) -> None:
    """Add to `clips` the rows where `is_open` (bool [rows]), with the names of their speakers."""
    asked = bool(job.package.splits) or job.package.max_hours_per_speaker is not None
    begin = 0
    for batch in batches:
        some = is_open[begin : begin + batch.count]
        begin += len(some)
        if not some.any():
            continue
        rows = batch.table("rows.arrow", (*split_input.COLUMNS, "blob")).filter(pa.array(some))
        rows = rows.append_column("pending", pc.is_null(rows["blob"]))  # only in forecasts
        if linked is not None:
            rows = linked.called(rows)
        published = published_ids.holding(rows["id"]) if asked else np.zeros(len(rows), bool)
        clips.add(rows, published, linked)
    clips.finish()


def _corpus_wide(
    job: Job, batches: Sequence[ShardBatch], newest: Path | None, published: selection.PublishedIds
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


def _by_batch(batches: Sequence[ShardBatch], rejected: pa.Table) -> list[pa.Table | None]:
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


def first_rows(batches: Sequence[ShardBatch]) -> Int64s:
    """The number of each batch's first row, and the number of all rows; int64 [batches + 1]."""
    return np.cumsum([0, *(batch.count for batch in batches)])


def _clips(batches: Sequence[ShardBatch], split: Int16s, linked: Speakers | None) -> CorpusClips:
    """All clips of these batches; `split`: of each row."""
    begins = first_rows(batches)
    count = int(begins[-1])
    clips = CorpusClips(
        np.empty(count, np.uint64),
        np.empty(count, np.uint64),
        np.empty(count, np.float64),
        np.arange(count, dtype=np.int32),
        np.full(count, -1, np.int32),
        split.copy(),
    )
    named = ("dataset", "speaker") if linked is not None else ()
    for batch, begin, end in zip(batches, begins[:-1], begins[1:], strict=True):
        rows = batch.table("rows.arrow", ("high", "low", "num_samples", "sample_rate", *named))
        span = slice(begin, end)
        clips.high[span], clips.low[span] = rows["high"].to_numpy(), rows["low"].to_numpy()
        clips.seconds[span] = rows["num_samples"].to_numpy() / rows["sample_rate"].to_numpy()
        if linked is not None:
            clips.speaker[span] = linked.index_of(speakers.voices_of(rows))
    order = np.argsort(clips.high, kind="stable")
    for column in clips:
        column[:] = column[order]  # one at a time, so that only one is held twice
    close = np.flatnonzero(clips.high[1:] == clips.high[:-1])
    same = close[clips.low[close] == clips.low[close + 1]]
    if len(same):
        [row] = rows_of(batches, clips.row[same[:1]], ("id", "recording")).to_pylist()
        raise RunError(
            f"two utterances have the id {row['id']}; give the segments of {row['recording']} "
            "different ids"
        )
    return clips


def rows_of(batches: Sequence[ShardBatch], numbers: Int32s, columns: Sequence[str]) -> pa.Table:
    """These columns of the rows with these numbers (at least one), in this order."""
    order = np.argsort(numbers, kind="stable")
    begins = first_rows(batches)
    edges = np.searchsorted(numbers, begins, sorter=order)
    pieces = []
    for batch in np.flatnonzero(np.diff(edges)).tolist():
        rows = numbers[order[edges[batch] : edges[batch + 1]]] - begins[batch]
        pieces.append(batches[batch].table("rows.arrow", columns).select(columns).take(rows))
    back = np.empty(len(order), np.int64)
    back[order] = np.arange(len(order))
    return tables.take(pa.concat_tables(pieces), back)
