"""Chooses the clips of the next version: corpus-wide rejections, then hours per speaker and splits.

Runs in one process with some tens of bytes a clip in memory; the rows stay on disk.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ... import storage
from ...base.arrays import Bools, Int64s, UInt64s
from ...base.json_types import JsonObject
from ...base.logs import log
from ...settings import Split
from ...settings.job import Job
from ...settings.package import REST
from ...storage import sorted_keys, tables, versions
from .. import corpus_labels, previous_version, seeded_hash, speakers
from ..outcomes import shard_batches
from ..outcomes.shard_batches import VOICE, ShardBatch
from ..previous_version import Published
from ..speakers import Speakers
from . import (
    clip_choice,
    corpus_clips,
    corpus_rejections,
    selection,
    split_allocation,
    split_input,
    splits,
)
from .components import Sides
from .selection import Selection
from .split_by_list import ListDescriptions


@dataclass(frozen=True, slots=True)
class Choice:
    """Facts on the next version's clips besides the tables that `choose` saves."""

    frozen: JsonObject  # bounds of corpus-wide rules, for dataset.json
    split_lists: ListDescriptions  # for dataset.json
    firsts: dict[str, str]  # the first id of each split
    changed: list[str]  # shards with recordings whose files changed during the run


def choose(job: Job, scratch: Path) -> Choice:
    """Save the tables of the packaged clips and of the corpus-wide rejections in `scratch`."""
    batches = shard_batches.listed(scratch)
    newest = versions.newest(job.out)

    def voices() -> Iterator[pa.Table]:
        return (batch.table("voices.arrow") for batch in batches)

    linked = speakers.link(job, voices, newest, scratch)
    rejected, frozen = corpus_rejections.corpus_wide(job, batches, newest)
    corpus_labels.save(job, scratch, frozen)
    first_rows = corpus_rejections.first_rows(batches)
    split = np.zeros(first_rows[-1], np.int16)  # of all rows, batch by batch; -1: not packaged
    split[rejected["at"].to_numpy()] = -1
    names, lists, first_ids = [REST], ListDescriptions(), dict[str, str]()
    if selection.selects(job):
        stay = staying(job, batches, newest, split >= 0, linked is not None)
        among = (split >= 0) & (stay.split < 0)
        with split_input.Candidates(job.package, job.scratch) as passed:
            _add_open(job, passed, batches, among, linked, newest)
            passed.staying = partial(_staying_texts, batches, stay)
            if (stay.split < 0).all():  # otherwise `passed` lacks the clips that stay
                for sentence in passed.chosen_by.unmatched():
                    log.warning("%s", sentence)
            selected = selection.select(job, passed, newest, stay.lengths)
            if selected.splits is not None:
                with storage.of(scratch).writing(scratch) as home:
                    tables.write_arrow(home / splits.FILE, selected.splits())
        open_rows = np.flatnonzero(among)
        first_ids = _first_ids(batches, first_rows, open_rows, selected, stay)
        names, lists = [*first_ids] or [REST], selected.lists
        split = renumbered(stay.split, stay.names, names)
        split[open_rows[selected.rows]] = renumbered(selected.split, selected.names, names)
        places = pa.array(open_rows[selected.rejected["at"].to_numpy()])
        rejected = pa.concat_tables([rejected, selected.rejected.set_column(0, "at", places)])
        del among, open_rows, passed, selected, stay, places
    else:
        selection.warn_of_lost_splits(newest)
    corpus_rejections.save(scratch, batches, rejected)
    del rejected
    clips = corpus_clips.load(batches, linked)
    corpus_clips.save(scratch, clips, first_rows, split, names, linked.names if linked else [])
    changed = [shard for batch in batches for shard in batch.changed]
    return Choice(frozen, lists, first_ids, changed)


def _first_ids(
    batches: Sequence[ShardBatch],
    begins: Int64s,
    open_rows: Int64s,
    selected: Selection,
    stay: Staying,
) -> dict[str, str]:
    """The first id of each split in use, sorted by that id: the order of the splits."""
    first_ids = dict(stay.first_ids)
    for number, index in zip(*np.unique(selected.split, return_index=True), strict=True):
        row = open_rows[selected.rows[index]]
        batch = int(np.searchsorted(begins, row, "right")) - 1
        name = selected.names[number]
        clip_id = batches[batch].table("rows.arrow", ("id",))["id"][row - begins[batch]].as_py()
        first_ids[name] = min(clip_id, first_ids.get(name, clip_id), key=str.encode)
    return dict(sorted(first_ids.items(), key=lambda item: item[1].encode()))


def _add_open(
    job: Job,
    clips: split_input.Candidates,
    batches: Sequence[ShardBatch],
    is_open: Bools,
    linked: Speakers | None,
    newest: Path | None,
) -> None:
    """Add to `clips` the rows where `is_open` (bool [rows]), with the names of their speakers."""
    capped = job.package.max_hours_per_speaker is not None
    published_ids = selection.PublishedIds(job, newest if capped else None)
    spoken = pa.array(linked.names if linked else [], pa.string())
    begin = 0
    for batch in batches:
        some = is_open[begin : begin + batch.count]
        begin += len(some)
        if not some.any():
            continue
        rows = batch.table("rows.arrow", (*split_input.COLUMNS, "blob")).filter(pa.array(some))
        rows = rows.append_column("pending", pc.is_null(rows["blob"]))  # only in forecasts
        columns = ("high", "low", *([VOICE] if linked else []))
        digests = batch.table("digests.arrow", columns).filter(pa.array(some))
        if linked is not None:
            names = speakers.names_of(linked.of(digests[VOICE].to_numpy()), spoken)
            rows = speakers.called(rows, names)
        keys = np.stack([digests["high"].to_numpy(), digests["low"].to_numpy()], 1)
        clips.add(rows, published_ids.among(keys), linked)
    clips.finish()


def _staying_texts(batches: Sequence[ShardBatch], stay: Staying) -> Iterator[pa.Table]:
    """Tables (normalised, split) of the clips that stay."""
    names, begin = pa.array(stay.names, pa.string()), 0
    for batch in batches:
        side = stay.split[begin : begin + batch.count]
        begin += len(side)
        if (side >= 0).any():
            rows = batch.table("rows.arrow", ("normalised",)).filter(pa.array(side >= 0))
            yield rows.append_column("split", names.take(pa.array(side[side >= 0])))


# Clips that stay in their split of the newest version.
#
# If a published clip's row did not change, its speaker, recording and samples are in
# `splits.parquet` with the clip's split, so assigning it again would give the same split. A run
# therefore reads only the names of new and changed clips, and recognises the others by digests of
# their ids and rows, 24 bytes each.

AT_ONCE = 1 << 20  # rows looked up together
COLUMNS = ("high", "low", "content", "samples", "rate")  # of DIGESTS


class Staying(NamedTuple):
    """The clips that stay, among all rows, batch by batch."""

    split: Sides  # of each row, index into `names`; -1: to be assigned
    names: list[str]
    lengths: dict[str, int]  # µs of the clips in each split
    first_ids: dict[str, str]  # of each split


def no_clips(rows: int) -> Staying:
    """`Staying` without any clip; `rows`: how many rows there are."""
    return Staying(np.full(rows, -1, np.int16), [], {}, {})


def renumbered(split: Sides, names: list[str], now: list[str]) -> Sides:
    """The splits as indices into `now` instead of `names`; -1 stays -1. `now` must have every name
    in use."""
    places = [now.index(name) if name in now else -1 for name in names]
    return np.array([*places, -1], np.int16)[split]


def staying(
    job: Job, batches: Sequence[ShardBatch], newest: Path | None, is_open: Bools, linked: bool
) -> Staying:
    """The clips that stay, among the rows where `is_open` (bool [rows]). `linked`: speakers are
    linked across recordings, so that a row alone does not say who speaks.

    No clip stays if the settings may move an unchanged clip to another split, or if the notes on
    the newest version are gone. All clips are assigned then, with the same result.
    """
    if newest is None or linked or not _suffices(job, newest):
        return no_clips(len(is_open))
    described = versions.described(newest)
    first_ids = previous_version.noted(job.out, described).get("firsts", {})
    if not first_ids:
        return no_clips(len(is_open))
    published = _by_id(previous_version.load(job.out, newest, described, job.package.seed))
    return _compared(batches, is_open, published, first_ids, job.package.seed)


def _suffices(job: Job, newest: Path) -> bool:
    """Whether the settings guarantee that an unchanged published clip keeps its split."""
    package = job.package
    listed = (
        isinstance(split, Split) and split.list is not None for split in package.splits.values()
    )
    # The message about a list's unmatched names needs all clips.
    if not package.splits or package.resplit or any(listed):
        return False
    if package.max_hours_per_speaker is not None or not storage.exists(newest / splits.FILE):
        return False
    then: JsonObject = versions.described(newest)["settings"]["package"]
    if then.get("disjoint") != (package.disjoint and [*package.disjoint]):
        return False
    if not clip_choice.same(package, then):
        return False
    weights = then.get("weights", {})
    return then.get("seed") == package.seed and all(
        weights.get(name, 1.0) <= weight for name, weight in package.weights.items()
    )


class _PublishedClips(NamedTuple):
    """The clips of the newest version, by the hashes of their ids."""

    high: UInt64s  # sorted
    low: UInt64s
    content: UInt64s
    split: Sides  # index into `names`
    names: list[str]


def _by_id(published: Published) -> _PublishedClips:
    names = sorted({shard.split for shard in published.shards})
    numbers = np.array([names.index(shard.split) for shard in published.shards], np.int16)
    split = np.repeat(numbers, [shard.clips for shard in published.shards])
    order = np.argsort(published.high).astype(np.int32)
    high, low, content = (
        column[order] for column in (published.high, published.low, published.content)
    )
    return _PublishedClips(high, low, content, split[order], names)


def _compared(
    batches: Sequence[ShardBatch],
    is_open: Bools,
    published: _PublishedClips,
    first_ids: Mapping[str, str],
    seed: int,
) -> Staying:
    """The open rows with the id and content of a published clip; none if one of the splits has lost
    its first clip, on which the order of splits depends."""
    split = np.full(len(is_open), -1, np.int16)
    lengths: dict[str, int] = {}
    keys = seeded_hash.keys(str(seed), first_ids.values())
    place = sorted_keys.places_of(keys[:, 0], keys[:, 1], published.high, published.low)
    is_first_met = np.zeros(len(place), bool)
    for span, rows in _portions(batches):
        position = sorted_keys.places_of(rows["high"], rows["low"], published.high, published.low)
        same = np.flatnonzero(
            (position >= 0) & is_open[span] & (published.content[position] == rows["content"])
        )
        position = position[same]
        side = split[span][same] = published.split[position]
        length = split_allocation.lengths_of(rows["samples"][same], rows["rate"][same])
        for number in np.unique(side).tolist():
            name = published.names[number]
            lengths[name] = lengths.get(name, 0) + int(length[side == number].sum())
        is_first_met |= [bool((position == clip).any()) for clip in place.tolist()]
    with_first = {name for name, is_met in zip(first_ids, is_first_met, strict=True) if is_met}
    if not lengths.keys() <= with_first:
        return no_clips(len(is_open))
    return Staying(split, published.names, lengths, {name: first_ids[name] for name in lengths})


def _portions(batches: Sequence[ShardBatch]) -> Iterator[tuple[slice, dict[str, NDArray[Any]]]]:
    """The places of some batches' rows among all rows, and their COLUMNS."""
    first = end = 0
    pieces: list[pa.Table] = []
    for number, batch in enumerate(batches):
        pieces.append(batch.table("digests.arrow", COLUMNS))
        end += len(pieces[-1])
        if end - first >= AT_ONCE or number + 1 == len(batches):
            whole = pa.concat_tables(pieces)
            yield slice(first, end), {name: whole[name].to_numpy() for name in COLUMNS}
            first, pieces = end, []
