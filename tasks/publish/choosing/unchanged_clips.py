"""Finds clips that stay in the split of the newest version, without reading their names.

A published clip whose row did not change has the same speaker, recording and samples, which
`splits.parquet` has in the clip's split: assigning it again would give the same answer. So a run
reads only the names of new and changed clips, and recognises the others by digests of their ids and
rows, 24 bytes each.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from tasks import storage
from tasks.base.arrays import Bools, UInt64s
from tasks.base.json_types import JsonObject
from tasks.publish import previous_version, seeded_hash
from tasks.publish.choosing import clip_choice, split_allocation, splits
from tasks.publish.choosing.components import Sides
from tasks.publish.outcomes.shard_batches import ShardBatch
from tasks.publish.previous_version import Published
from tasks.settings import Split
from tasks.settings.job import Job
from tasks.storage import sorted_keys, versions

AT_ONCE = 1 << 20  # rows that are looked up together
COLUMNS = ("high", "low", "content", "samples", "rate")  # of DIGESTS


class Staying(NamedTuple):
    """The clips that stay, among all rows, batch by batch."""

    split: Sides  # of each row: index of `names`; -1: it has to be assigned
    names: list[str]
    lengths: dict[str, int]  # µs of the clips in each split
    first_ids: dict[str, str]  # of each split


def nobody(rows: int) -> Staying:
    return Staying(np.full(rows, -1, np.int16), [], {}, {})


def renumbered(split: Sides, names: list[str], now: list[str]) -> Sides:
    """The same splits as indices of other names, which have all that are in use; -1 stays."""
    places = [now.index(name) if name in now else -1 for name in names]
    return np.array([*places, -1], np.int16)[split]


def of(
    job: Job, batches: Sequence[ShardBatch], newest: Path | None, is_open: Bools, linked: bool
) -> Staying:
    """The clips that stay, among the rows that are still open (`is_open` [rows]). `linked`:
    speakers are linked over all recordings, so that a row does not say who speaks.

    No clip counts as staying if an unchanged clip may change its split by the settings, or if the
    notes on the newest version are gone. All clips are assigned then, with the same answers.
    """
    if newest is None or linked or not _suffices(job, newest):
        return nobody(len(is_open))
    described = versions.described(newest)
    first_ids = previous_version.noted(job.out, described).get("firsts", {})
    if not first_ids:
        return nobody(len(is_open))
    published = _known(previous_version.load(job.out, newest, described, job.package.seed))
    return _compared(batches, is_open, published, first_ids, job.package.seed)


def _suffices(job: Job, newest: Path) -> bool:
    """Whether the settings guarantee that an unchanged published clip keeps its split."""
    package = job.package
    listed = (
        isinstance(split, Split) and split.list is not None for split in package.splits.values()
    )
    if not package.splits or package.resplit or any(listed):  # lists say what they do not find
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


class _Known(NamedTuple):
    """The clips of the newest version, by the hashes of their ids."""

    high: UInt64s  # sorted
    low: UInt64s
    content: UInt64s
    split: Sides  # index of `names`
    names: list[str]


def _known(published: Published) -> _Known:
    names = sorted({shard.split for shard in published.shards})
    numbers = np.array([names.index(shard.split) for shard in published.shards], np.int16)
    split = np.repeat(numbers, [shard.clips for shard in published.shards])
    order = np.argsort(published.high).astype(np.int32)
    high, low, content = (
        column[order] for column in (published.high, published.low, published.content)
    )
    return _Known(high, low, content, split[order], names)


def _compared(
    batches: Sequence[ShardBatch],
    is_open: Bools,
    published: _Known,
    first_ids: Mapping[str, str],
    seed: int,
) -> Staying:
    """The rows with the ids and contents of published clips; nobody if the first clip of a split
    is not among them."""
    split = np.full(len(is_open), -1, np.int16)
    lengths: dict[str, int] = {}
    keys = seeded_hash.keys(str(seed), first_ids.values())
    place = sorted_keys.places_of(keys[:, 0], keys[:, 1], published.high, published.low)
    met = np.zeros(len(place), bool)
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
        met |= [bool((position == clip).any()) for clip in place.tolist()]
    still = {name for name, is_met in zip(first_ids, met, strict=True) if is_met}
    if not lengths.keys() <= still:
        return nobody(len(is_open))
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
