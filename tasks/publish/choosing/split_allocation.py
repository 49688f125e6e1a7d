"""Allocates new components of clips to splits, so that each split comes near its hours.

Lengths are integer microseconds, because sums of integers do not depend on their order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from ...base.arrays import Bools, Int32s, Int64s
from ...settings import PackageSettings, Split
from .. import seeded_hash
from ..name_table import Nodes
from .components import KINDS, PCM, RECORDING, SPEAKING, Sides

HOUR = 3_600_000_000  # µs
BATCH = 1 << 18  # names hashed together


def microseconds(rows: pa.Table) -> Int64s:
    """µs of each row (columns num_samples, sample_rate)."""
    samples, rates = rows["num_samples"].to_numpy(), rows["sample_rate"].to_numpy()
    lengths: Int64s = np.rint(samples.astype(np.float64) * 1e6 / rates).astype(np.int64)
    return lengths


def targets(settings: PackageSettings, names: list[str], total: int) -> Int64s:
    """µs that each split should have; 0 for `train` and for lists. Fractions are of `total` (µs);
    splits with hours get at most what keeps all targets below half of `total`."""
    shares = [settings.splits.get(name) for name in names]
    fractions = [total * s if isinstance(s, float) else 0 for s in shares]
    hours = [(s.hours or 0) * HOUR if isinstance(s, Split) else 0 for s in shares]
    parts, fixed = np.array(fractions, np.float64), np.array(hours, np.float64)
    room = max(total / 2 - parts.sum(), 0)
    target: Int64s = np.rint(parts + fixed * min(1, room / max(fixed.sum(), 1))).astype(np.int64)
    return target


def order(seed: int, nodes: Nodes, component: Int32s, free: Bools) -> Int64s:
    """The order in which new components are allocated, as positions among their sorted numbers: by
    a seeded hash of each component's first name. `component`: of each row; `free`: whether the row
    is in a new component.
    """
    count = len(np.unique(component[free]))
    first = np.full(int(component.max(initial=-1)) + 1, -1, np.int32)  # the node of that name
    # Later kinds overwrite: speakers' names take precedence over recordings', and these over PCM.
    for kind in (PCM, RECORDING, SPEAKING):
        has = free & (nodes.of_row[kind] >= 0)
        node = nodes.of_row[kind][has]
        is_used = np.zeros(len(nodes.kind), bool)
        is_used[node] = True
        by_name = nodes.ordered(kind)
        by_name = by_name[is_used[by_name]]
        rank = np.zeros(len(is_used), np.int32)
        rank[by_name] = np.arange(len(by_name), dtype=np.int32)
        least = np.full(len(first), len(by_name), np.int32)
        np.minimum.at(least, component[has], rank[node])
        named = least < len(by_name)
        first[named] = by_name[least[named]]
        del has, node, is_used, rank, least
    chosen = first[first >= 0]
    draw = np.empty(count, np.uint64)
    by_kind = np.argsort(chosen, kind="stable")  # nodes of a kind are adjacent
    for portion in np.array_split(by_kind, max(-(-count // BATCH), 1)):
        for kind in np.unique(nodes.kind[chosen[portion]]).tolist():
            some = portion[nodes.kind[chosen[portion]] == kind]
            names_of = (f"{KINDS[kind]} {name}" for name in nodes.called(chosen[some]).to_pylist())
            draw[some] = seeded_hash.draws(f"{seed}:split", names_of)
    return np.argsort(draw, kind="stable")


def allocate(sizes: Int64s, lacking: Int64s, hours: Int64s, train: int) -> Sides:
    """The split of each new component, in the order given.

    `sizes` [components]: µs; `lacking` [splits]: µs between a split's target and what it has,
    train's is ignored; `hours` [splits]: µs that a split has already; `train`: index of train.
    """
    sides = np.full(len(sizes), train, np.int16)
    missing = {
        split: int(lack) for split, lack in enumerate(lacking) if lack > 0 and split != train
    }
    rest = int(hours[train] + sizes.sum())
    smallest = int(sizes.min(initial=0))
    for index in range(len(sizes)):
        size = int(sizes[index])
        room = max(missing.values(), default=-1)
        if room < smallest:
            break
        if size <= room and rest - size >= size:
            split = max(missing, key=lambda split: (missing[split], -split))
            sides[index] = split
            missing[split] -= size
            rest -= size
    # Each split now lacks less than train's smallest component: it takes that one if this helps.
    free = np.flatnonzero(sides == train)
    free = free[np.argsort(sizes[free], kind="stable")]
    for split in sorted(missing, key=lambda split: (-missing[split], split)):
        size = int(sizes[free[0]]) if len(free) else 0
        empty = hours[split] == 0 and not (sides == split).any()
        if 0 < size <= rest - size and missing[split] > 0 and (empty or 2 * missing[split] > size):
            sides[free[0]] = split
            free = free[1:]
            rest -= size
    return sides
