"""New groups of clips to splits: in a seeded order, so that the hours come near what is asked."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.packaging import balance
from tasks.packaging.groups import KINDS, Bools, Ints, Nodes
from tasks.settings import PackageSettings, Split

HOUR = 3_600_000_000  # µs: sums of integers do not depend on their order


def microseconds(rows: pa.Table) -> Ints:
    samples = rows["num_samples"].to_numpy().astype(np.float64)
    lengths: Ints = np.rint(samples * 1e6 / rows["sample_rate"].to_numpy()).astype(np.int64)
    return lengths


def wanted(settings: PackageSettings, names: list[str], total: int) -> Ints:
    """µs that each side should have of `total`; 0 where nothing is asked."""
    shares = [settings.splits.get(name) for name in names]
    parts = np.array([total * s if isinstance(s, float) else 0 for s in shares], np.float64)
    fixed = np.array(
        [(s.hours or 0) * HOUR if isinstance(s, Split) else 0 for s in shares], np.float64
    )
    room = max(total / 2 - parts.sum(), 0)
    found: Ints = np.rint(parts + fixed * min(1, room / max(fixed.sum(), 1))).astype(np.int64)
    return found


def order(seed: int, nodes: Nodes, group: Ints, free: Bools) -> Ints:
    """Which of the new groups, in the order of their numbers, is dealt first, and so on: by a hash
    of the first name in each. `group` is that of each row, `free` says which rows are in new ones.
    """
    named = [nodes.of_row[kind][free] for kind in (0, 1)]
    node = np.concatenate(named)
    owner = np.concatenate([group[free]] * len(named))[node >= 0]
    node = node[node >= 0]
    used, first = np.unique(node, return_index=True)
    owner = owner[first]
    by_name = pc.sort_indices(nodes.name.take(used)).to_numpy().astype(np.int64)
    by_name = by_name[np.argsort(nodes.kind[used][by_name], kind="stable")]
    _, at = np.unique(owner[by_name], return_index=True)  # groups in order, each with its first
    chosen = used[by_name[at]]
    names = [
        f"{KINDS[kind]} {name}"
        for kind, name in zip(nodes.kind[chosen], nodes.name.take(chosen).to_pylist(), strict=True)
    ]
    draw = balance.draws(f"{seed}:split", names)
    tie = np.empty(len(at), np.int64)
    tie[np.argsort(at)] = np.arange(len(at))
    order: Ints = np.lexsort((tie, draw))
    return order


def deal(sizes: Ints, lacking: Ints, hours: Ints, train: int) -> Ints:
    """Side of each new group, in the order in which they are dealt; sizes and hours in µs.

    `lacking` [sides] is what each side has too little, `hours` what it has; train's do not count.
    """
    found = np.full(len(sizes), train, np.int64)
    left = {side: int(lack) for side, lack in enumerate(lacking) if lack > 0 and side != train}
    rest = int(hours[train] + sizes.sum())
    smallest = int(sizes.min(initial=0))
    for at, size in enumerate(sizes.tolist()):
        room = max(left.values(), default=-1)
        if room < smallest:
            break
        if size <= room and rest - size >= size:
            side = max(left, key=lambda side: (left[side], -side))
            found[at] = side
            left[side] -= size
            rest -= size
    # From the smallest: what is still lacking is less than any group that train could give.
    free = np.flatnonzero(found == train)
    free = free[np.argsort(sizes[free], kind="stable")]
    for side in sorted(left, key=lambda side: (-left[side], side)):
        size = int(sizes[free[0]]) if len(free) else 0
        empty = hours[side] == 0 and not (found == side).any()
        if 0 < size <= rest - size and left[side] > 0 and (empty or 2 * left[side] > size):
            found[free[0]] = side
            free = free[1:]
            rest -= size
    return found
