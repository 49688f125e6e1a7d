"""Assigns clips to output shards, and keeps them there from version to version.

A shard of the previous version keeps those of its clips that are still packaged; new clips go into
shards of a new generation. So a shard whose clips are unchanged is not written again. A full layout
distributes all clips anew.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from heapq import heapify, heapreplace
from itertools import pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...accounting import summary
from ...base.arrays import Bools, Float64s, Int64s, UInt64s
from ...base.schema import UTTERANCES_FILE
from ...settings import PackageSettings
from ...storage import sorted_keys, tables
from ...storage.versions import Proved

#: Settings on which a layout depends; if one changes, the layout is full.
LAYOUT_SETTINGS = ("seed", "tar_hours", "readers")
#: Most tars of a split; for more hours, its tars get larger than `tar_hours`.
MOST_TARS = 40_000


@dataclass(frozen=True, slots=True)
class ShardClips:
    """An output shard, in every format, with its clips."""

    split: str
    number: int  # within its split
    generation: int  # number of the version that created it
    rows: Int64s  # indices of its clips in `LayoutClips`, in order
    before: PublishedShard | None = None  # it in the previous version, if it existed
    whole: bool = False  # no clip has left it since the previous version


class LayoutClips(NamedTuple):
    key: UInt64s  # seeded draw, by which clips are ordered within a shard
    seconds: Float64s
    split: NDArray[np.integer[Any]]  # index into `names`
    names: list[str]


class Before(NamedTuple):
    """The output shards of the previous version, and the places of its clips in the next one."""

    shards: list[PublishedShard]
    now: Int64s  # [clips of the previous version] index in `LayoutClips`; -1: not packaged any more


class PublishedShard(NamedTuple):
    split: str
    number: int
    generation: int
    first: int  # its first row in `utterances.parquet`
    clips: int


def published_shards(portions: Iterable[pa.Table]) -> list[PublishedShard]:
    """The output shards of a published table (columns shard, split and generation)."""
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
            if shard == last:  # continued from the previous portion
                published[-1] = published[-1]._replace(clips=published[-1].clips + end - first)
                continue
            place = split, numbers[split], generation, begin + first
            published.append(PublishedShard(*place, end - first))
            last, numbers[split] = shard, numbers[split] + 1
        begin += len(part)
    return published


@dataclass(frozen=True)
class PublishedClips:
    seed: int  # of the ids' hashes
    high: UInt64s  # first half of the hash of the id
    low: UInt64s  # second half
    shards: list[PublishedShard]

    @cached_property
    def _sorted(self) -> tuple[UInt64s, UInt64s]:
        order = np.argsort(self.high)
        return self.high[order], self.low[order]

    def holding(self, ids: pa.ChunkedArray) -> Bools:
        """Which of these ids are among them; bool [ids]."""
        keys = sorted_keys.hashes(ids.to_pylist(), f"{self.seed}:")
        return sorted_keys.places_of(keys[:, 0], keys[:, 1], *self._sorted) >= 0


def load_published(newest: Path | None, seed: int) -> PublishedClips:
    """The newest version's clips and output shards, none without one. Raises RunError if its table
    is lost or damaged."""
    keys, places = [np.empty((0, 2), np.uint64)], list[pa.Table]()
    names = ["shard", "split", "generation"]
    if newest is not None:
        table = newest / UTTERANCES_FILE
        for part in tables.row_groups(table, ["id", *names], opened=Proved(newest)):
            keys.append(sorted_keys.hashes(part["id"].to_pylist(), f"{seed}:"))
            places.append(part.select(names))
    high, low = (np.ascontiguousarray(half) for half in np.concatenate(keys).T)
    return PublishedClips(seed, high, low, published_shards(places))


def clips_of(table: pa.Table, settings: PackageSettings) -> LayoutClips:
    """The clips of a table (columns id, split, num_samples, sample_rate)."""
    coded = tables.coded(table["split"])
    codes = coded.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    keys = sorted_keys.draws(str(settings.seed), table["id"].to_pylist())
    return LayoutClips(keys, summary.seconds_of(table), codes, coded.dictionary.to_pylist())


def lay_out_clips(
    clips: LayoutClips,
    settings: PackageSettings,
    generation: int,
    before: Before | None = None,
    before_settings: Mapping[str, object] | None = None,
) -> list[ShardClips]:
    """The output shards of all clips, sorted by split and number; numbers have no gaps.

    `before`: the previous version; `before_settings`: its package settings. Without them, with
    other LAYOUT_SETTINGS or with `rebalance: full`, all clips are laid out anew; otherwise only
    splits whose readers' loads would differ by more than `rebalance_above`.
    """
    if (
        before is None
        or settings.rebalance == "full"
        or before_settings is None
        or any(getattr(settings, n) != before_settings.get(n) for n in LAYOUT_SETTINGS)
    ):
        every = _new_shards(clips, np.arange(len(clips.key)), settings, generation, {})
        return every if before is None else _recognised(every, before)

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
    # A split with few clips for many readers is uneven in any layout; then the old one stays.
    anew = {s for s in above if above[s] > best[s] + settings.rebalance_above}
    chosen = [shard for shard in grown if shard.split not in anew]
    chosen += [shard for shard in full if shard.split in anew]
    return sorted(chosen, key=lambda shard: (shard.split, shard.number))


def _recognised(shards: Sequence[ShardClips], before: Before) -> list[ShardClips]:
    """These shards; one that the previous version has, too, keeps its generation, so that laying
    out the same clips once more changes nothing."""
    then = {(shard.split, shard.number): shard for shard in before.shards}
    recognised = []
    for shard in shards:
        old = then.get((shard.split, shard.number))
        if old and np.array_equal(before.now[old.first : old.first + old.clips], shard.rows):
            shard = replace(shard, generation=old.generation, before=old, whole=True)
        recognised.append(shard)
    return recognised


def _grow(
    clips: LayoutClips, settings: PackageSettings, generation: int, before: Before
) -> list[ShardClips]:
    """The previous version's shards without clips that are gone, and shards of new clips."""
    kept: list[ShardClips] = []
    numbers = Counter[str]()  # of shards in each split
    fresh = np.ones(len(clips.key), bool)
    codes = {name: code for code, name in enumerate(clips.names)}
    for old in before.shards:
        rows = before.now[old.first : old.first + old.clips]
        rows = rows[rows >= 0]
        # A clip that moved to another split leaves its old shard and counts as new.
        rows = rows[clips.split[rows] == codes.get(old.split, -1)]
        if not len(rows):
            continue
        fresh[rows] = False
        place = old.split, numbers[old.split], old.generation
        kept.append(ShardClips(*place, rows, old, whole=len(rows) == old.clips))
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
    """New shards with these clips, of about equal duration within each split. `first_numbers`: by
    split, the number of the first new shard."""
    splits = clips.split[rows]
    shards = []
    for split in sorted(clips.names[code] for code in np.unique(splits)):
        code = clips.names.index(split)
        chosen = rows[splits == code]
        lengths = clips.seconds[chosen]
        every = clips.seconds[clips.split == code]
        hours = settings.tar_hours
        if every.sum() / 3600 >= 0.999 * hours * MOST_TARS:
            hours = max(hours, math.fsum(every) / 3600 / MOST_TARS)  # whatever the order
        wanted = max(1, round(math.fsum(lengths) / 3600 / hours))
        # Only a split's first generation needs a multiple of `readers`.
        readers = 1 if split in first_numbers else settings.readers
        count = max(1, min(-(-wanted // readers) * readers, len(lengths)))
        distributed = distribute(lengths, clips.key[chosen], count)
        for number, indices in enumerate(distributed, first_numbers.get(split, 0)):
            shards.append(ShardClips(split, number, generation, chosen[indices]))
    return shards


def loads_of(shards: list[ShardClips], seconds: Float64s) -> dict[str, list[float]]:
    """Seconds of each split's shards, in the order of their numbers."""
    loads: dict[str, list[float]] = {}
    for shard in shards:
        loads.setdefault(shard.split, []).append(float(seconds[shard.rows].sum()))
    return loads


def distribute(seconds: Float64s, keys: UInt64s, shards: int) -> list[Int64s]:
    """Indices of the clips of each of some shards of about equal duration, ordered by their keys.

    Longest clips first, each goes to the shard with the fewest seconds (greedy LPT scheduling): any
    two shards differ by at most the longest clip, and no small last shard remains. Ties are broken
    by key, then by position, so that neighbours in a recording and clips of a speaker are spread
    over the shards.
    """
    order = np.lexsort((keys, -seconds))
    heap = [(0.0, index) for index in range(shards)]
    heapify(heap)
    group = np.empty(len(order), np.int32)
    chosen = []
    # An empty clip counts a little, so that no shard stays without a clip.
    for length in np.maximum(seconds[order], 1e-9).tolist():
        load, index = heap[0]
        chosen.append(index)
        heapreplace(heap, (load + length, index))
    group[order] = chosen
    shuffled = np.lexsort((keys, group))
    ends = np.cumsum(np.bincount(group, minlength=shards))
    return np.split(shuffled, ends[:-1])


def skew(loads: Sequence[float], readers: int) -> tuple[float, float]:
    """By how much the most loaded reader exceeds the mean, in the unit of `loads` and as a
    fraction. Reader `i % readers` gets tar `i`, as in WeNet's loader."""
    shares = [sum(loads[reader::readers]) for reader in range(readers)]
    extra = max(shares) - sum(shares) / readers
    return extra, extra * readers / sum(loads) if sum(loads) else 0.0
