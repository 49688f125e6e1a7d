"""Chooses the clips of the next version: corpus-wide rejections, then hours per speaker and splits.

Runs in one process with some tens of bytes a clip in memory; the rows stay on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ... import corpus, storage
from ...base.arrays import Bools
from ...base.json_types import HeldOutSet, JsonObject
from ...base.logs import log
from ...corpus import rejections
from ...corpus.rejections import OfCorpus
from ...settings.job import Job
from ...settings.package import REST
from ...shard_store import clip_choice
from ...storage import tables, versions
from .. import speakers
from ..outcomes.shard_batches import LIMITS, VOICE, ShardBatch
from ..speakers import Speakers
from . import corpus_clips, selection, split_input, splits
from .corpus_clips import Chosen
from .selection import Parted
from .split_by_list import ListDescriptions


@dataclass(frozen=True, slots=True)
class Choice:
    """The clips of the next version."""

    clips: Chosen
    rejected: list[pa.Table | None]  # OUTCOMES of corpus-wide rejections, of each shard batch
    linked: Speakers | None  # None: the settings link no speakers across recordings
    frozen: JsonObject  # bounds of corpus-wide rules, for dataset.json
    split_lists: ListDescriptions  # for dataset.json
    test_sets: list[HeldOutSet]  # of package.exclude, for dataset.json
    parted: Parted | None  # what splits do to the newest version's clips; None: no splits


def choose(job: Job, scratch: Path, batches: Sequence[ShardBatch]) -> Choice:
    """Choose among the utterances of decided batches. Saves the tables of splits and of speakers
    across recordings in `scratch`."""
    newest = versions.newest(job.out)

    def voices() -> Iterator[pa.Table]:
        return (batch.table("voices.arrow") for batch in batches)

    linked = speakers.link(job, voices, newest, scratch)
    published = selection.PublishedIds(job, newest)
    rejected, frozen, test_sets = _corpus_wide(job, batches, newest, published)
    split = np.zeros(corpus_clips.first_rows(batches)[-1], np.int16)  # of all rows
    split[rejected["at"].to_numpy()] = -1
    names, lists, parted = [REST], ListDescriptions(), None
    if selection.selects(job):
        is_open = split >= 0
        with split_input.Candidates(job.package, job.scratch) as passed:
            for table in _of_choice(job, batches):
                passed.chosen_by.add(table)
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
    clips = corpus_clips.load(batches, split, linked)
    clips = clips.take(clips.split >= 0)
    chosen = Chosen(clips, names, linked.names if linked else [])
    return Choice(chosen, outcomes, linked, frozen, lists, test_sets, parted)


def _of_choice(job: Job, batches: Sequence[ShardBatch]) -> Iterator[pa.Table]:
    """What `package.only` and `without` ask of all clips, also of those left out already."""
    if clip_choice.restricts(job.package):
        for batch in batches:
            yield batch.table(LIMITS, (*clip_choice.COLUMNS, "labels"))


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
    spoken = pa.array(linked.names if linked else [], pa.string())
    begin = 0
    for batch in batches:
        some = is_open[begin : begin + batch.count]
        begin += len(some)
        if not some.any():
            continue
        rows = batch.table("rows.arrow", (*split_input.COLUMNS, "blob")).filter(pa.array(some))
        rows = rows.append_column("pending", pc.is_null(rows["blob"]))  # only in forecasts
        clip_keys = batch.table("clips.arrow").filter(pa.array(some))
        if linked is not None:
            names = speakers.names_of(linked.index_of(clip_keys[VOICE].to_numpy()), spoken)
            rows = speakers.called(rows, names)
        published = np.zeros(len(rows), bool)
        if asked:
            keys = np.stack([clip_keys["high"].to_numpy(), clip_keys["low"].to_numpy()], 1)
            published = published_ids.among(keys)
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
    rows, begin = corpus_clips.first_rows(batches), 0
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
    begins = corpus_clips.first_rows(batches)
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
