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

from tasks import balance
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
    settings: without them, with other settings of the layout, on `rebalance: full`, or when the
    worst of the readers would get too much, all clips are dealt anew.
    """
    seconds = seconds_of(table)
    rewrite = (
        before is None
        or settings.rebalance == "full"
        or before_settings is None
        or any(getattr(settings, n) != before_settings.get(n) for n in LAYOUT_SETTINGS)
    )
    if before is not None and not rewrite:
        grown = _grow(table, seconds, settings, generation, before)
        uneven = worst(loads_of(grown, seconds), settings.readers)[1]
        if uneven <= settings.rebalance_above:
            return grown
    full = _dealt(table, np.arange(table.num_rows), seconds, settings, generation, {})
    if before is not None and not rewrite:
        # Few clips for many readers are uneven however they are dealt: that is no reason.
        best = worst(loads_of(full, seconds), settings.readers)[1]
        if uneven <= best + settings.rebalance_above:
            return grown
    return full


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
    split_now = table["split"].to_numpy(zero_copy_only=False)
    split_then = before["split"].to_numpy(zero_copy_only=False)
    stays = (index >= 0) & (split_now[index] == split_then)
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
    splits = table["split"].to_numpy(zero_copy_only=False)[rows]
    ids = table["id"]
    found = []
    for split in sorted(set(splits.tolist())):
        chosen = rows[splits == split]
        keys = [balance.shuffle_key(settings.seed, k) for k in ids.take(chosen).to_pylist()]
        lengths = seconds[chosen].tolist()
        # A generation that is added need not serve all readers; the first one does.
        readers = 1 if split in first_numbers else settings.readers
        tars = balance.count(sum(lengths), settings.tar_hours, len(lengths), readers)
        for number, group in enumerate(
            balance.deal(lengths, keys, tars), first_numbers.get(split, 0)
        ):
            found.append(Group(split, number, generation, chosen[group]))
    return found


def seconds_of(table: pa.Table) -> NDArray[np.float64]:
    """Duration of each row, s."""
    samples = table["num_samples"].to_numpy(zero_copy_only=False)
    rates = table["sample_rate"].to_numpy(zero_copy_only=False)
    lengths: NDArray[np.float64] = samples / rates
    return lengths


def loads_of(groups: list[Group], seconds: NDArray[np.float64]) -> dict[str, list[float]]:
    """Seconds of each tar, by split, in the order of their numbers."""
    loads: dict[str, list[float]] = {}
    for group in groups:
        loads.setdefault(group.split, []).append(float(seconds[group.rows].sum()))
    return loads


def worst(loads: dict[str, list[float]], readers: int) -> tuple[float, float]:
    """(seconds, fraction of the mean share) that the worst reader of any split has too much."""
    found = [
        (extra, extra * readers / sum(tars) if sum(tars) else 0.0)
        for tars in loads.values()
        for extra in [balance.skew(tars, readers)]
    ]
    return max(found, key=lambda pair: pair[1], default=(0.0, 0.0))


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
