"""Which clip lies in which tar, from one version to the next.

A tar of the last version stays where its clips are still packaged; clips that are gone leave it,
and new ones go into a generation of tars of their own. So adding little writes little: a tar
whose clips are all as they were is not written again. A full layout deals all clips anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.accounting import summary
from tasks.packaging import balance
from tasks.settings import PackageSettings

#: What a layout depends on; another value deals all clips anew.
LAYOUT_SETTINGS = ("seed", "tar_hours", "readers")


@dataclass(frozen=True, slots=True)
class Group:
    """The clips of one tar: rows of the table, in order. `before`: the tar's number in the last
    version when it comes from there; `whole`: no clip has left it since."""

    split: str
    number: int
    generation: int
    rows: NDArray[np.int64]
    before: int | None = None
    whole: bool = False


def groups_of(table: pa.Table) -> list[tuple[str, int, int, int]]:
    """(split, number, first row, rows) of each tar of a published `utterances.parquet`."""
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
    """Groups of all rows of `table` (columns id, split, num_samples, sample_rate), by split and
    number, numbers without gaps.

    `before` is the last version's utterances, in its order, and `before_settings` its package
    settings: without them, with other settings of the layout, or on `rebalance: full`, all clips
    are dealt anew; and those of a split of which the worst of the readers would get too much.
    """
    seconds = summary.seconds_of(table)
    rewrite = (
        before is None
        or settings.rebalance == "full"
        or before_settings is None
        or any(getattr(settings, n) != before_settings.get(n) for n in LAYOUT_SETTINGS)
    )
    if before is None or rewrite:
        return _dealt(table, np.arange(table.num_rows), seconds, settings, generation, {})
    grown = _grow(table, seconds, settings, generation, before)
    above = {
        split: fraction
        for split, (_, fraction) in skews(loads_of(grown, seconds), settings.readers).items()
        if fraction > settings.rebalance_above
    }
    uneven = pc.is_in(table["split"], pa.array(list(above), pa.string())).to_numpy()
    full = _dealt(table, np.flatnonzero(uneven), seconds, settings, generation, {})
    best = skews(loads_of(full, seconds), settings.readers)
    # Few clips for many readers are uneven however they are dealt: that is no reason.
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
    """The tars of before with what is left of them, then tars with what is new."""
    now = pc.index_in(before["id"], table["id"]).to_numpy(zero_copy_only=False)
    # A clip that changed sides is new where it comes to, and gone where it was.
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
    new = _dealt(table, np.flatnonzero(fresh), seconds, settings, generation, first_numbers)
    return sorted([*kept, *new], key=lambda group: (group.split, group.number))


def _dealt(
    table: pa.Table,
    rows: NDArray[np.int64],
    seconds: NDArray[np.float64],
    settings: PackageSettings,
    generation: int,
    first_numbers: dict[str, int],
) -> list[Group]:
    """One generation of tars of equal duration per split, from these rows."""
    coded = table["split"].combine_chunks().dictionary_encode()
    names = coded.dictionary.to_pylist()
    splits = coded.indices.to_numpy(zero_copy_only=False)[rows]
    ids = table["id"]
    found = []
    for split in sorted(names[code] for code in np.unique(splits)):
        chosen = rows[splits == names.index(split)]
        keys = balance.draws(str(settings.seed), ids.take(chosen).to_pylist())
        lengths = seconds[chosen]
        # A generation that is added need not serve all readers; the first one does.
        readers = 1 if split in first_numbers else settings.readers
        tars = balance.count(sum(lengths.tolist()), settings.tar_hours, len(lengths), readers)
        for number, group in enumerate(
            balance.deal(lengths, keys, tars), first_numbers.get(split, 0)
        ):
            found.append(Group(split, number, generation, chosen[group]))
    return found


def loads_of(groups: list[Group], seconds: NDArray[np.float64]) -> dict[str, list[float]]:
    """Seconds of each tar, by split, in the order of their numbers."""
    loads: dict[str, list[float]] = {}
    for group in groups:
        loads.setdefault(group.split, []).append(float(seconds[group.rows].sum()))
    return loads


def skews(loads: dict[str, list[float]], readers: int) -> dict[str, tuple[float, float]]:
    """(seconds, fraction of the mean share) that the worst reader of each split has too much."""
    return {
        split: (extra, extra * readers / sum(tars) if sum(tars) else 0.0)
        for split, tars in loads.items()
        for extra in [balance.skew(tars, readers)]
    }


def worst(loads: dict[str, list[float]], readers: int) -> tuple[float, float]:
    """The same of the split where it is most seconds."""
    return max(skews(loads, readers).values(), default=(0.0, 0.0))


def same_as(
    groups: list[Group], table: pa.Table, before: pa.Table | None, columns: tuple[str, ...]
) -> list[int | None]:
    """For each group the number of the last version's tar whose clips equal it in all of `columns`
    (what a format writes), or None."""
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
