"""Which clip lies in which output shard, from one version to the next.

A shard of the previous version keeps its clips that are still packaged; new clips go into shards of
a new generation. So a small addition writes little: a shard with unchanged clips is not written
again. A full layout distributes all clips anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.accounting import summary
from tasks.packaging import balance, seeded
from tasks.settings import PackageSettings

#: What a layout depends on; another value means a full layout.
LAYOUT_SETTINGS = ("seed", "tar_hours", "readers")


@dataclass(frozen=True, slots=True)
class Group:
    """The clips of one output shard, which is the same in every format."""

    split: str
    number: int  # in its split
    generation: int  # the version that made it
    rows: NDArray[np.int64]  # of the table, in order
    before: int | None = None  # its number in the previous version, if it was there
    whole: bool = False  # no clip has left it since


def groups_of(table: pa.Table) -> list[tuple[str, int, int, int]]:
    """(split, number, first row, rows) of each group of a published `utterances.parquet`."""
    if not table.num_rows:
        return []
    shards = table["shard"].combine_chunks()
    changes = pc.not_equal(shards[1:], shards[:-1]).to_numpy(zero_copy_only=False)
    starts = [0, *(np.flatnonzero(changes) + 1).tolist()]
    numbers: dict[str, int] = {}
    found = []
    for first, end in zip(starts, [*starts[1:], table.num_rows], strict=True):
        split = table["split"][first].as_py()
        numbers[split] = numbers.get(split, -1) + 1
        found.append((split, numbers[split], first, end - first))
    return found


def lay_out(
    table: pa.Table,
    settings: PackageSettings,
    generation: int,
    before: pa.Table | None = None,
    before_settings: dict[str, Any] | None = None,
) -> list[Group]:
    """Groups of all rows of `table` (columns id, split, num_samples, sample_rate), sorted by split
    and number; the numbers have no gaps.

    `before` is the previous version's utterances, in its order, and `before_settings` its package
    settings. Without them, with other LAYOUT_SETTINGS or `rebalance: full`, all clips are laid out
    anew; otherwise only those of a split whose most loaded reader would get too much.
    """
    seconds = summary.seconds_of(table)
    rewrite = (
        before is None
        or settings.rebalance == "full"
        or before_settings is None
        or any(getattr(settings, n) != before_settings.get(n) for n in LAYOUT_SETTINGS)
    )
    if before is None or rewrite:
        return _new_groups(table, np.arange(table.num_rows), seconds, settings, generation, {})
    grown = _grow(table, seconds, settings, generation, before)
    above = {
        split: fraction
        for split, (_, fraction) in skews(loads_of(grown, seconds), settings.readers).items()
        if fraction > settings.rebalance_above
    }
    uneven = pc.is_in(table["split"], pa.array(list(above), pa.string())).to_numpy()
    full = _new_groups(table, np.flatnonzero(uneven), seconds, settings, generation, {})
    best = skews(loads_of(full, seconds), settings.readers)
    # Few clips for many readers stay uneven in any layout: no reason for a new one.
    anew = {s for s in above if above[s] > best[s][1] + settings.rebalance_above}
    chosen = [group for group in grown if group.split not in anew]
    chosen += [group for group in full if group.split in anew]
    return sorted(chosen, key=lambda group: (group.split, group.number))


def _grow(
    table: pa.Table,
    seconds: NDArray[np.float64],
    settings: PackageSettings,
    generation: int,
    before: pa.Table,
) -> list[Group]:
    """The previous groups without the clips that are gone, then groups of what is new."""
    now = pc.index_in(before["id"], table["id"]).to_numpy(zero_copy_only=False)
    # A clip that moved to another split is gone from its old one and new in the other.
    index = np.where(np.isnan(now), -1, now).astype(np.int64) if len(now) else np.zeros(0, int)
    names = pc.unique(before["split"])
    split_now = pc.index_in(table["split"], names).fill_null(-1).to_numpy()
    split_then = pc.index_in(before["split"], names).to_numpy()
    stays = index >= 0
    stays[stays] = split_now[index[stays]] == split_then[stays]
    generations = before["generation"].to_numpy(zero_copy_only=False)
    kept: list[Group] = []
    numbers: dict[str, int] = {}
    for split, number, first, count in groups_of(before):
        of_it = slice(first, first + count)
        rows = index[of_it][stays[of_it]]
        if not len(rows):
            continue
        numbers[split] = numbers.get(split, -1) + 1
        kept.append(
            Group(split, numbers[split], int(generations[first]), rows, number, len(rows) == count)
        )
    fresh = np.ones(table.num_rows, bool)
    fresh[index[stays]] = False
    first_numbers = {split: number + 1 for split, number in numbers.items()}
    new = _new_groups(table, np.flatnonzero(fresh), seconds, settings, generation, first_numbers)
    return sorted([*kept, *new], key=lambda group: (group.split, group.number))


def _new_groups(
    table: pa.Table,
    rows: NDArray[np.int64],
    seconds: NDArray[np.float64],
    settings: PackageSettings,
    generation: int,
    first_numbers: dict[str, int],
) -> list[Group]:
    """One generation of groups of equal duration per split, from these rows."""
    coded = table["split"].combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    splits = coded.indices.to_numpy(zero_copy_only=False)[rows]
    ids = table["id"]
    found = []
    for split in sorted(names[code] for code in np.unique(splits)):
        chosen = rows[splits == names.index(split)]
        keys = seeded.draws(str(settings.seed), ids.take(chosen).to_pylist())
        lengths = seconds[chosen]
        # Only the first generation has to serve all readers.
        readers = 1 if split in first_numbers else settings.readers
        count = balance.count(sum(lengths.tolist()), settings.tar_hours, len(lengths), readers)
        groups = balance.distribute(lengths, keys, count)
        for number, group in enumerate(groups, first_numbers.get(split, 0)):
            found.append(Group(split, number, generation, chosen[group]))
    return found


def loads_of(groups: list[Group], seconds: NDArray[np.float64]) -> dict[str, list[float]]:
    """Seconds of each group, by split, in the order of their numbers."""
    loads: dict[str, list[float]] = {}
    for group in groups:
        loads.setdefault(group.split, []).append(float(seconds[group.rows].sum()))
    return loads


def skews(loads: dict[str, list[float]], readers: int) -> dict[str, tuple[float, float]]:
    """By how much the most loaded reader of each split exceeds the mean: (seconds, fraction)."""
    return {
        split: (extra, extra * readers / sum(tars) if sum(tars) else 0.0)
        for split, tars in loads.items()
        for extra in [balance.skew(tars, readers)]
    }


def worst(loads: dict[str, list[float]], readers: int) -> tuple[float, float]:
    """The same for the worst split."""
    return max(skews(loads, readers).values(), default=(0.0, 0.0))


def same_as(
    groups: list[Group], table: pa.Table, before: pa.Table | None, columns: tuple[str, ...]
) -> list[int | None]:
    """For each group the number of the previous group with the same clips, equal in all `columns`
    (what a format writes); None if there is none."""
    both = set(before.column_names) & set(table.column_names) if before is not None else set()
    if before is None or not set(columns) <= both:
        return [None] * len(groups)
    firsts = {(split, number): first for split, number, first, _ in groups_of(before)}
    now, then = table.select(columns), before.select(columns)
    found: list[int | None] = []
    for group in groups:
        equal = False
        if group.whole and group.before is not None:
            first = firsts[group.split, group.before]
            equal = now.take(group.rows).equals(then.slice(first, len(group.rows)))
        found.append(group.before if equal else None)
    return found
