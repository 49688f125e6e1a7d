"""Chooses the clips of the next version: corpus-wide rejections; the choice by speaker, dataset,
language and label; weights of datasets; hours per speaker; splits.

Runs in one process with about 40 bytes a clip in memory; the rows stay on disk. A row's number
counts the rows of all shard batches, batch by batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
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
from ...recording import forgotten
from ...settings import package
from ...settings.job import Job
from ...settings.package import REST
from ...shard_store import clip_choice, source_languages
from ...storage import sorted_keys, tables, versions
from .. import corpus, speakers
from ..corpus import held_out, rejections
from ..corpus.rejections import OfCorpus
from ..outcomes.shard_batches import AT, LIMITS, ShardBatch
from ..output_shards import layout
from ..output_shards.layout import PublishedClips
from ..speakers import Speakers
from . import split_input, splits
from .components import HOUR, KINDS, RECORDING, SPEAKER, Nodes, Sides, SplitTable
from .split_input import Candidates, ListDescriptions


class Parted(NamedTuple):
    clips: dict[str, int]  # clips of each split
    lost: int  # published clips that are dropped, because they would join two splits
    lost_seconds: float
    joining: bool  # some of these for their speaker, recording or samples, and not for their text


class Selection(NamedTuple):
    rows: Int32s  # numbers of the clips to package, in the order of ids
    split: Sides  # of each clip in `rows`, index into `names`
    names: list[str]
    rejected: pa.Table  # REJECTED: the other clips
    splits: Callable[[], Iterator[pa.Table]] | None  # makes tables of `splits.parquet`
    lists: ListDescriptions
    parted: Parted | None  # None: no splits


class CorpusClips(NamedTuple):
    """Clips that passed the rules of their own shards, sorted by the hash of their ids."""

    high: UInt64s  # first half of the hash of the id
    low: UInt64s  # second half
    seconds: Float64s
    row: Int32s  # number of the row
    split: Int16s  # index into the names of splits; -1: not packaged

    def take(self, which: Any) -> CorpusClips:
        return CorpusClips(*(column[which] for column in self))


@dataclass(frozen=True, slots=True)
class Choice:
    clips: CorpusClips
    names: list[str]  # of splits
    rejected: list[pa.Table | None]  # REJECTED, of the utterances of each shard batch
    linked: Speakers | None  # None: the settings link no speakers across recordings
    frozen: JsonObject  # bounds of corpus-wide rules, for dataset.json
    split_lists: ListDescriptions  # for dataset.json
    test_sets: list[HeldOutSet]  # of package.exclude, for dataset.json
    parted: Parted | None  # what splits do to the newest version's clips; None: no splits
    published: Callable[[], PublishedClips]  # reads those of the newest version once

    def named(self, rows: pa.Table, split: NDArray[Any]) -> pa.Table:
        """The rows of clips with their splits and the names of speakers across recordings, which
        need the column `dataset`, as far as they have these columns; `split`: of CorpusClips."""
        if "split" in rows.column_names:
            sides = pa.array(self.names).take(pa.array(split))
            rows = tables.replaced(rows, "split", sides)
        return self.linked.called(rows) if self.linked and "speaker" in rows.column_names else rows


def check(job: Job) -> None:
    """Raises ConfigError for wrong settings, before anything is computed."""
    clip_choice.check(job)
    package.read_list(job.package)
    held_out.check(job)


def selects(job: Job) -> bool:
    """Whether the settings select among the clips that passed all rules."""
    package = job.package
    chosen = clip_choice.restricts(package) or bool(package.splits or package.weights)
    return chosen or package.max_hours_per_speaker is not None


def rejects(job: Job) -> bool:
    """Whether the settings may reject clips that pass the limits."""
    return corpus.takes_part(job) or selects(job)


def choose(job: Job, scratch: Path, batches: Sequence[ShardBatch]) -> Choice:
    """Choose among the utterances of decided batches. Saves the tables of splits and of speakers
    across recordings in `scratch`. Raises RunError if two clips have the same id."""
    newest = versions.newest(job.out)

    def voices() -> Iterator[pa.Table]:
        return (batch.table("voices.arrow") for batch in batches)

    linked = speakers.link(job, voices, newest, scratch)
    published = cache(partial(layout.load_published, newest, job.package.seed))
    rejected, frozen, test_sets = _corpus_wide(job, batches, newest, published)
    if (spoken := source_languages.of_job(job)) or source_languages.FROZEN in frozen:
        frozen = {**frozen, source_languages.FROZEN: dict(spoken)}
    split = np.zeros(first_rows(batches)[-1], np.int16)  # of all rows
    split[rejected["at"].to_numpy()] = -1
    selected = Selection(np.zeros(0, np.int32), split, [REST], rejected, None, {}, None)
    if selects(job):
        with split_input.Candidates(job.package, job.scratch) as passed:
            # What `package.only` and `without` ask of all clips, also of those left out already.
            for batch in batches if clip_choice.restricts(job.package) else ():
                passed.chosen_by.add(batch.table(LIMITS, (*clip_choice.COLUMNS, "labels")))
            _add_open(job, passed, batches, split >= 0, linked, published)
            for sentence in passed.chosen_by.unmatched():
                log.warning("%s", sentence)
            selected = select(job, passed, newest)
            if selected.splits is not None:
                with storage.store_of(scratch).writing(scratch) as home:
                    tables.write_arrow(home / splits.FILE, selected.splits())
        split[:] = -1
        split[selected.rows] = selected.split
        rejected = pa.concat_tables([rejected, selected.rejected])
        del passed
    else:
        _warn_of_lost_splits(newest)
    by_batch = _by_batch(batches, rejected)
    del rejected
    clips = _clips(batches, split)
    clips = clips.take(clips.split >= 0)
    of_version = frozen, selected.lists, test_sets, selected.parted
    return Choice(clips, selected.names, by_batch, linked, *of_version, published)


def _add_open(
    job: Job,
    clips: Candidates,
    batches: Sequence[ShardBatch],
    is_open: Bools,
    linked: Speakers | None,
    published: Callable[[], PublishedClips],
) -> None:
    """Add to `clips` the rows where `is_open` (bool [rows]), with the names of their speakers."""
    asked = bool(job.package.splits) or job.package.max_hours_per_speaker is not None
    begins = first_rows(batches)
    for batch, begin, end in zip(batches, begins[:-1], begins[1:], strict=True):
        numbers = begin + np.flatnonzero(is_open[begin:end])
        if not len(numbers):
            continue
        rows = batch.table("rows.arrow", (*split_input.COLUMNS, "blob"))
        rows = rows.filter(pa.array(is_open[begin:end]))
        rows = rows.append_column("pending", pc.is_null(rows["blob"]))  # only in forecasts
        if linked is not None:
            rows = linked.called(rows)
        before = published().holding(rows["id"]) if asked else np.zeros(len(rows), bool)
        clips.add(rows, numbers.astype(np.int32), before, linked)
    clips.finish()


def _corpus_wide(
    job: Job,
    batches: Sequence[ShardBatch],
    newest: Path | None,
    published: Callable[[], PublishedClips],
) -> OfCorpus:
    """Rejections over the whole corpus; `at` is the clip's place among all rows."""
    frozen: JsonObject = versions.described(newest)["frozen"] if newest else {}
    if not corpus.takes_part(job):
        return OfCorpus(rejections.REJECTED.empty_table(), frozen, [])

    def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
        return (batch.table("heard.arrow", columns).select(columns) for batch in batches)

    def are_published(ids: pa.ChunkedArray) -> Bools:
        return published().holding(ids)

    rejected, frozen, test_sets = rejections.of_corpus(job, parts, are_published, frozen)
    if len(rejected):
        places = list[Int64s]()
        for batch, begin in zip(batches, first_rows(batches), strict=False):
            number = batch.table("heard.arrow", ())[AT].to_numpy()
            row = sorted_keys.index_in(batch.waiting(), number)
            places.append(np.where(row < 0, -1, begin + row))
        position = np.concatenate(places)[rejected["at"].to_numpy()]
        rejected = rejected.set_column(0, "at", pa.array(position))
        rejected = rejected.filter(pc.greater_equal(rejected["at"], 0))
    return OfCorpus(rejected, frozen, test_sets)


def _by_batch(batches: Sequence[ShardBatch], rejected: pa.Table) -> list[pa.Table | None]:
    """The rejections (REJECTED) of each shard batch, with the numbers of its utterances; None if it
    has none."""
    rejected = rejected.take(np.argsort(rejected["at"].to_numpy(), kind="stable"))
    begins, rows = first_rows(batches), rejected["at"].to_numpy()
    edges = np.searchsorted(rows, begins).tolist()
    by_batch: list[pa.Table | None] = []
    for batch, begin, low, high in zip(batches, begins[:-1], edges[:-1], edges[1:], strict=True):
        some = None
        if low < high:
            numbers = batch.waiting()[rows[low:high] - begin]
            some = rejected.slice(low, high - low).set_column(0, "at", pa.array(numbers))
        by_batch.append(some)
    return by_batch


def first_rows(batches: Sequence[ShardBatch]) -> Int64s:
    """The number of each batch's first row, and the number of all rows; int64 [batches + 1]."""
    return np.cumsum([0, *(batch.count for batch in batches)])


def _clips(batches: Sequence[ShardBatch], split: Int16s) -> CorpusClips:
    """All clips of these batches; `split`: of each row."""
    begins = first_rows(batches)
    count = int(begins[-1])
    clips = CorpusClips(
        np.empty(count, np.uint64),
        np.empty(count, np.uint64),
        np.empty(count, np.float64),
        np.arange(count, dtype=np.int32),
        split.copy(),
    )
    for batch, begin, end in zip(batches, begins[:-1], begins[1:], strict=True):
        rows = batch.table("rows.arrow", ("high", "low", "num_samples", "sample_rate"))
        span = slice(begin, end)
        clips.high[span], clips.low[span] = rows["high"].to_numpy(), rows["low"].to_numpy()
        clips.seconds[span] = rows["num_samples"].to_numpy() / rows["sample_rate"].to_numpy()
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


def select(job: Job, clips: Candidates, newest: Path | None) -> Selection:
    """Select among `clips`, which must still be open (its database is read)."""
    package, rows, rejected = job.package, clips.order, [clips.rejected]

    def drop(where: NDArray[Any], reason: str, **why: Any) -> None:
        rejected.append(rejections.rejected(clips.number[rows[where]], reason, **why))

    if (most := package.max_hours_per_speaker) is not None:
        speaker = Nodes(clips.names, [SPEAKER], rows).of_row[0]
        columns = clips.turn[rows], clips.length[rows], clips.published[rows]
        out, hours = over_hours(speaker, *columns, most)
        limit = np.full(int(out.sum()), most)
        drop(out, "speaker_hours", values=hours[out], thresholds=limit)
        rows = rows[~out]
    if not package.splits:
        _warn_of_lost_splits(newest)
        split = np.zeros(len(rows), np.int16)
        return Selection(
            clips.number[rows], split, [REST], pa.concat_tables(rejected), None, {}, None
        )
    before = _without_forgotten(job, splits.published(None if package.resplit else newest))
    assigned = splits.assign(package, clips, rows, before)
    for note in assigned.notes:
        log.warning("%s", note)
    drop(assigned.joining, "split_conflict", details=assigned.joins)
    drop(assigned.repeating, "text_in_two_splits", details=assigned.repeats)
    kept = assigned.split >= 0
    dropped = rows[~kept]
    lost = dropped[clips.published[dropped]]
    count = np.bincount(assigned.split[kept], minlength=len(assigned.names)).tolist()
    parted = Parted(
        dict(zip(assigned.names, count, strict=True)),
        len(lost),
        float(clips.length[lost].sum()) / 1e6,
        bool(clips.published[rows[assigned.joining]].any()),
    )
    chosen = clips.number[rows[kept]], assigned.split[kept], assigned.names
    of_splits = assigned.table, assigned.lists, parted
    return Selection(*chosen, pa.concat_tables(rejected), *of_splits)


def _without_forgotten(job: Job, before: SplitTable) -> SplitTable:
    """The table of splits without the names of what was removed on request."""
    gone = forgotten.read(job.out)
    if not gone:
        return before

    def stays(kind: str, name: str) -> bool:
        if kind == KINDS[RECORDING]:
            return not gone.names(name)
        return kind != SPEAKER or not gone.speaks(*name.split("/", 1))

    def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
        for table in before([*dict.fromkeys((*columns, "kind", "name"))]):
            pairs = zip(table["kind"].to_pylist(), table["name"].to_pylist(), strict=True)
            kept = pa.array([stays(kind, name) for kind, name in pairs], pa.bool_())
            yield table.filter(kept).select(columns)

    return parts


def _warn_of_lost_splits(newest: Path | None) -> None:
    """Warn that all clips become train, if the newest version has splits."""
    if newest is None or not storage.exists(newest / splits.FILE):
        return
    others = sorted(versions.described(newest)["splits"].keys() - {REST})
    if others:
        log.warning(
            "package.splits is not set: what %s has as %s becomes %s",
            newest.name,
            " and ".join(others),
            REST,
        )


def over_hours(
    speaker: Int32s, turn: UInt64s, length: Int64s, published: Bools, most: float
) -> tuple[Bools, Float64s]:
    """Which clips exceed `most` hours of their speaker, and the speaker's hours up to the end of
    each clip: published clips come first, then the others, in the order of their draws (`turn`),
    so that a higher cap only adds clips. `speaker`: number of each clip's speaker, -1: none, not
    capped; `length`: µs."""
    order = np.lexsort((turn, ~published, speaker))
    summed = np.cumsum(length[order])
    first = sorted_keys.first_of_runs(speaker[order])
    before = np.maximum.accumulate(np.where(first, summed - length[order], 0))
    hours = np.empty(len(order))
    hours[order] = (summed - before) / HOUR
    return (speaker >= 0) & (hours > most), hours
