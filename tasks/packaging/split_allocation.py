"""Allocates new components of clips to splits, so that their hours come near what is asked.

All lengths are integer microseconds: sums of integers do not depend on their order.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.packaging import seeded
from tasks.packaging.components import KINDS, Bools, Ints, Nodes
from tasks.settings import PackageSettings, Split

HOUR = 3_600_000_000  # µs


def microseconds(rows: pa.Table) -> Ints:
    samples = rows["num_samples"].to_numpy().astype(np.float64)
    lengths: Ints = np.rint(samples * 1e6 / rows["sample_rate"].to_numpy()).astype(np.int64)
    return lengths


def targets(settings: PackageSettings, names: list[str], total: int) -> Ints:
    """µs that each split should have of `total`; 0 if nothing is asked."""
    shares = [settings.splits.get(name) for name in names]
    fractions = [total * s if isinstance(s, float) else 0 for s in shares]
    hours = [(s.hours or 0) * HOUR if isinstance(s, Split) else 0 for s in shares]
    parts, fixed = np.array(fractions, np.float64), np.array(hours, np.float64)
    room = max(total / 2 - parts.sum(), 0)
    found: Ints = np.rint(parts + fixed * min(1, room / max(fixed.sum(), 1))).astype(np.int64)
    return found


def order(seed: int, nodes: Nodes, component: Ints, free: Bools) -> Ints:
    """The order in which new components are allocated, as positions in their sorted numbers: by a
    hash of the first name in each. `component` is that of each row, `free` marks rows of new ones.
    """
    named = [nodes.of_row[kind][free] for kind in (0, 1)]
    node = np.concatenate(named)
    owner = np.concatenate([component[free]] * len(named))[node >= 0]
    node = node[node >= 0]
    used, first = np.unique(node, return_index=True)
    owner = owner[first]
    by_name = pc.sort_indices(nodes.name.take(used)).to_numpy().astype(np.int64)
    by_name = by_name[np.argsort(nodes.kind[used][by_name], kind="stable")]
    _, at = np.unique(owner[by_name], return_index=True)  # the first name of each component
    chosen = used[by_name[at]]
    names = [
        f"{KINDS[kind]} {name}"
        for kind, name in zip(nodes.kind[chosen], nodes.name.take(chosen).to_pylist(), strict=True)
    ]
    draw = seeded.draws(f"{seed}:split", names)
    tie = np.empty(len(at), np.int64)
    tie[np.argsort(at)] = np.arange(len(at))
    found: Ints = np.lexsort((tie, draw))
    return found


def allocate(sizes: Ints, lacking: Ints, hours: Ints, train: int) -> Ints:
    """The split of each new component, in the order given; sizes and hours in µs.

    `lacking` [splits] is what each split lacks, `hours` what it has; what train lacks is ignored.
    """
    found = np.full(len(sizes), train, np.int64)
    left = {split: int(lack) for split, lack in enumerate(lacking) if lack > 0 and split != train}
    rest = int(hours[train] + sizes.sum())
    smallest = int(sizes.min(initial=0))
    for at, size in enumerate(sizes.tolist()):
        room = max(left.values(), default=-1)
        if room < smallest:
            break
        if size <= room and rest - size >= size:
            split = max(left, key=lambda split: (left[split], -split))
            found[at] = split
            left[split] -= size
            rest -= size
    # Then the smallest: each split now lacks less than any component that train could give.
    free = np.flatnonzero(found == train)
    free = free[np.argsort(sizes[free], kind="stable")]
    for split in sorted(left, key=lambda split: (-left[split], split)):
        size = int(sizes[free[0]]) if len(free) else 0
        empty = hours[split] == 0 and not (found == split).any()
        if 0 < size <= rest - size and left[split] > 0 and (empty or 2 * left[split] > size):
            found[free[0]] = split
            free = free[1:]
            rest -= size
    return found
