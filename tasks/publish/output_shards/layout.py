"""Assigns clips to output shards, and keeps them there from version to version.

A shard of the previous version keeps its clips that are still packaged; new clips go into shards of
a new generation. So a shard with unchanged clips is not written again. A full layout distributes
all clips anew.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from heapq import heapify, heapreplace
from itertools import pairwise
from typing import Any, NamedTuple, TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.accounting import summary
from tasks.base.arrays import Bools, Float64s, Int64s, UInt64s
from tasks.publish import seeded_hash
from tasks.settings import PackageSettings
from tasks.storage import long_columns

Scalar = TypeVar("Scalar", bound=np.generic)

#: What a layout depends on; another value means a full layout.
LAYOUT_SETTINGS = ("seed", "tar_hours", "readers")
#: Most tars of a split; beyond that, its tars get larger than `tar_hours`.
MOST_TARS = 40_000


@dataclass(frozen=True, slots=True)
class PlannedShard:
    """Clips of an output shard, in every format; a part's plan has their rows, shard by shard."""

    split: str
    number: int  # in its split
    generation: int  # the version that made it
    clips: int
    before: int | None = None  # its number in the previous version, if it was there
    whole: bool = False  # no clip has left it since
    same: bool = False  # and each has the same row
    fresh: bool = True  # its rows come from shard batches, else from the previous version
    file: str = ""  # of the previous version with its rows; empty: there is none to compare
    then: int = 0  # its first row there


@dataclass(frozen=True, slots=True)
class ShardClips:
    """The same with its clips, whose rows may be anywhere."""

    split: str
    number: int
    generation: int
    rows: Int64s  # of the table, in order
    before: int | None = None
    whole: bool = False
    same: bool = False

    def planned(self) -> PlannedShard:
        place = self.split, self.number, self.generation, len(self.rows)
        return PlannedShard(*place, self.before, self.whole, self.same)


class LayoutClips(NamedTuple):
    """What a layout needs of a version's clips: some tens of bytes each."""

    key: UInt64s  # seeded draw: their order in a shard
    seconds: Float64s
    split: NDArray[np.integer[Any]]  # index of `names`
    names: list[str]


class Before(NamedTuple):
    """The output shards of the previous version, and where its clips are now."""

    shards: list[PublishedShard]
    now: Int64s  # of each of its clips, in its order: index in `LayoutClips`, or -1


class PublishedShard(NamedTuple):
    split: str
    number: int
    generation: int
    first: int  # row of `utterances.parquet`
    clips: int


def published_shards(portions: Iterable[pa.Table]) -> list[PublishedShard]:
    """The output shards of a published table, from portions of its columns shard, split and
    generation."""
    published: list[PublishedShard] = []
    numbers = Counter[str]()
    begin, last = 0, None
    for part in portions:
        runs = pc.run_end_encode(part["shard"].combine_chunks(), run_end_type=pa.int64())
        edges = [0, *runs.run_ends.to_pylist()]
        splits, generations = (
            part[n].take(edges[:-1]).to_pylist() for n in ("split", "generation")
        )
        described = zip(runs.values.to_pylist(), splits, generations, pairwise(edges), strict=True)
        for shard, split, generation, (first, end) in described:
            if shard == last:  # it goes on in this portion
                published[-1] = published[-1]._replace(clips=published[-1].clips + end - first)
                continue
            place = split, numbers[split], generation, begin + first
            published.append(PublishedShard(*place, end - first))
            last, numbers[split] = shard, numbers[split] + 1
        begin += len(part)
    return published


def clips_of(table: pa.Table, settings: PackageSettings) -> LayoutClips:
    """The clips of a table (columns id, split, num_samples, sample_rate)."""
    coded = long_columns.coded(table["split"])
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    keys = seeded_hash.draws(str(settings.seed), table["id"].to_pylist())
    return LayoutClips(keys, summary.seconds_of(table), codes, coded.dictionary.to_pylist())


def lay_out_clips(
    clips: LayoutClips,
    settings: PackageSettings,
    generation: int,
    before: Before | None = None,
    before_settings: Mapping[str, object] | None = None,
) -> list[ShardClips]:
    """Output shards of all clips, whose indices are their rows, sorted by split and number; the
    numbers have no gaps.

    `before` is the previous version and `before_settings` its package settings. Without them, with
    other LAYOUT_SETTINGS or `rebalance: full`, all clips are laid out again; otherwise only those
    of a split whose most loaded reader would get too much.
    """
    if (
        before is None
        or settings.rebalance == "full"
        or before_settings is None
        or any(getattr(settings, n) != before_settings.get(n) for n in LAYOUT_SETTINGS)
    ):
        return _new_shards(clips, np.arange(len(clips.key)), settings, generation, {})

    def unevenness(shards: list[ShardClips]) -> dict[str, float]:
        loads = loads_of(shards, clips.seconds)
        return {split: skew(tars, settings.readers)[1] for split, tars in loads.items()}

    grown = _grow(clips, settings, generation, before)
    above = {s: value for s, value in unevenness(grown).items() if value > settings.rebalance_above}
    if not above:
        return grown
    uneven = np.isin(clips.split, [clips.names.index(split) for split in above])
    full = _new_shards(clips, np.flatnonzero(uneven), settings, generation, {})
    best = unevenness(full)
    # Few clips for many readers stay uneven in any layout: no reason for a new one.
    anew = {s for s in above if above[s] > best[s] + settings.rebalance_above}
    chosen = [shard for shard in grown if shard.split not in anew]
    chosen += [shard for shard in full if shard.split in anew]
    return sorted(chosen, key=lambda shard: (shard.split, shard.number))


def _grow(
    clips: LayoutClips, settings: PackageSettings, generation: int, before: Before
) -> list[ShardClips]:
    """The previous shards without the clips that are gone, then shards of new clips."""
    kept: list[ShardClips] = []
    numbers = Counter[str]()  # of shards in each split
    fresh = np.ones(len(clips.key), bool)
    codes = {name: code for code, name in enumerate(clips.names)}
    for old in before.shards:
        rows = before.now[old.first : old.first + old.clips]
        rows = rows[rows >= 0]
        # A clip that moved to another split is gone from its old one and new in the other.
        rows = rows[clips.split[rows] == codes.get(old.split, -1)]
        if not len(rows):
            continue
        fresh[rows] = False
        place = old.split, numbers[old.split], old.generation
        kept.append(ShardClips(*place, rows, old.number, whole=len(rows) == old.clips))
        numbers[old.split] += 1
    new = _new_shards(clips, np.flatnonzero(fresh), settings, generation, numbers)
    return sorted([*kept, *new], key=lambda shard: (shard.split, shard.number))


def _new_shards(
    clips: LayoutClips,
    rows: Int64s,
    settings: PackageSettings,
    generation: int,
    first_numbers: Mapping[str, int],
) -> list[ShardClips]:
    """One generation of shards of equal duration per split, from these rows."""
    splits = clips.split[rows]
    shards = []
    for split in sorted(clips.names[code] for code in np.unique(splits)):
        code = clips.names.index(split)
        chosen = _among(rows, splits == code)
        lengths = _at(clips.seconds, chosen)
        # Only the first generation has to serve all readers.
        readers = 1 if split in first_numbers else settings.readers
        whole = math.fsum(lengths)  # whatever the order
        hours = tar_hours(settings, _among(clips.seconds, clips.split == code))
        count = shard_count(whole, hours, len(lengths), readers)
        distributed = distribute(lengths, _at(clips.key, chosen), count)
        for number, indices in enumerate(distributed, first_numbers.get(split, 0)):
            shards.append(ShardClips(split, number, generation, chosen[indices]))
    return shards


def _among(values: NDArray[Scalar], which: Bools) -> NDArray[Scalar]:
    """Some of the values; not copied if that is all of them: ten million take 80 MB."""
    return values if which.all() else values[which]


def _at(values: NDArray[Scalar], rows: Int64s) -> NDArray[Scalar]:
    """The values of these sorted rows; not copied if that is all of them."""
    return values if len(rows) == len(values) else values[rows]


def tar_hours(settings: PackageSettings, seconds: Float64s) -> float:
    """Hours per new tar of a split, given the seconds of its clips."""
    if seconds.sum() / 3600 < 0.999 * settings.tar_hours * MOST_TARS:
        return settings.tar_hours
    return max(settings.tar_hours, math.fsum(seconds) / 3600 / MOST_TARS)  # whatever the order


def loads_of(shards: list[ShardClips], seconds: Float64s) -> dict[str, list[float]]:
    """Seconds of each shard, by split, in the order of their numbers."""
    loads: dict[str, list[float]] = {}
    for shard in shards:
        loads.setdefault(shard.split, []).append(float(seconds[shard.rows].sum()))
    return loads


# Distributes clips over tar shards of equal duration, shuffled by seed, independent of work
# shards.

BATCH = 1 << 18  # clips whose lengths are held as Python's numbers


def shard_count(seconds: float, hours: float, clips: int, readers: int = 1) -> int:
    """Number of tar shards of about `hours` each: a multiple of the readers if there are enough
    clips, at most one a clip, at least one."""
    wanted = max(1, round(seconds / 3600 / hours))
    return max(1, min(-(-wanted // readers) * readers, clips))


def distribute(seconds: Float64s, keys: UInt64s, shards: int) -> list[Int64s]:
    """Clips `0..n-1` distributed over `shards` shards, in each ordered by their keys.

    The longest clip goes first, each to the lightest shard: any two shards differ by at most one
    longest clip, and no small last shard remains. Ties go by key, then by position, so that
    neighbours in a recording, or clips of a speaker, spread over the shards.
    """
    order = np.lexsort((keys, -seconds))
    heap = [(0.0, index) for index in range(shards)]
    heapify(heap)
    group = np.empty(len(order), np.int32)
    for low in range(0, len(order), BATCH):
        some = order[low : low + BATCH]
        chosen = []
        # A clip of no length counts a little, so that no shard stays empty.
        for length in np.maximum(seconds[some], 1e-9).tolist():
            load, index = heap[0]
            chosen.append(index)
            heapreplace(heap, (load + length, index))
        group[some] = chosen
    del order
    shuffled = np.lexsort((keys, group))
    ends = np.cumsum(np.bincount(group, minlength=shards))
    return np.split(shuffled, ends[:-1])


def skew(loads: Sequence[float], readers: int) -> tuple[float, float]:
    """By how much the most loaded of `readers` exceeds the mean, in the unit of `loads` and as a
    fraction, if reader `i % readers` gets tar `i`, as in WeNet's loader."""
    shares = [sum(loads[reader::readers]) for reader in range(readers)]
    extra = max(shares) - sum(shares) / readers
    return extra, extra * readers / sum(loads) if sum(loads) else 0.0
