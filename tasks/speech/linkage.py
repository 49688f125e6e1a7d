"""Average linkage by cosine: which groups of voices are one person's.

The mean cosine of all pairs between two groups of unit vectors is the product of their mean
vectors, so a group is kept as a mean and a weight. Groups that are each other's nearest are joined,
all such pairs at once, until no pair has the least cosine: for average linkage, this gives what
joining one best pair after the other gives (F. Murtagh, "A survey of recent advances in
hierarchical clustering algorithms", 1983), in some tens of rounds.

More than PORTION groups are linked in portions, each with the groups found before: memory is that
of the groups found (0.8 kB each) and of a portion. Every group is compared with all others by
matrix products: 200,000 voices of 10,000 people took 83 s of CPU. Libraries of approximate
neighbours were left out: hnswlib has no wheels, and faiss-cpu's indexes hold all vectors in memory,
7.7 GB for ten million.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.floating]
Reals = NDArray[np.float64]
Ints = NDArray[np.int64]

PORTION = 16_384
BLOCK = 1 << 22  # cosines that are held at once


def linked(means: Floats, weights: Reals, least: float, known: int = 0) -> Ints:
    """For each group, a mean vector [n, size] and a weight [n], the first of those that it is
    joined with. The first `known` groups are apart, and are joined only through others. Ties go to
    the first. `means` may lie in a file."""
    owner = np.arange(len(means), dtype=np.int64)
    heads, found, held = owner[:known], np.array(means[:known]), weights[:known].astype(float)
    for low in range(known, len(means), PORTION):
        some = slice(low, low + PORTION)
        heads = np.concatenate([heads, owner[some]])
        found = np.concatenate([found, means[some]])
        held = np.concatenate([held, weights[some]])
        into = _link(found, held, least, len(heads) - len(owner[some]))
        own = np.arange(len(into))
        owner[heads] = heads[into]
        heads, found, held = (each[into == own] for each in (heads, found, held))
    return _roots(owner)


def _roots(owner: Ints) -> Ints:
    while not np.array_equal(above := owner[owner], owner):
        owner = above
    return owner


def _link(means: Floats, weights: Reals, least: float, known: int) -> Ints:
    """The same for one portion after `known` groups; the first ones get the means and weights of
    what they are joined with."""
    count = len(means)
    owner = np.arange(count, dtype=np.int64)
    near, best = np.full(count, -1, np.int64), np.full(count, np.nan)
    live, stale = owner, owner[known:]
    while len(live) > 1 and len(stale):
        while len(stale):
            _search(means, live, stale, near, best)
            asked = near[live[best[live] >= least]]
            stale = np.unique(asked[np.isnan(best[asked])])
        # What has no near one now has none later: a mean is never nearer than its nearest part.
        live = live[~(best[live] < least)]
        some = live[~np.isnan(best[live])]
        firsts = some[(near[near[some]] == some) & (some < near[some])]
        if not len(some):
            break
        if not len(firsts):  # by rounding, three may be each other's nearest in a circle
            top = int(some[best[some].argmax()])
            firsts = np.array([min(top, int(near[top]))])
            near[firsts] = max(top, int(near[top]))
        seconds = near[firsts]
        whole = weights[firsts] + weights[seconds]
        share = (weights[seconds] / whole)[:, None].astype(means.dtype)
        means[firsts] += (means[seconds] - means[firsts]) * share
        weights[firsts] = whole
        owner[seconds] = firsts
        moved = np.zeros(count, bool)
        moved[firsts] = moved[seconds] = True
        live = live[owner[live] == live]
        some = live[~np.isnan(best[live])]
        stale = some[moved[some] | moved[near[some]]]
    return _roots(owner)


def _search(means: Floats, live: Ints, stale: Ints, near: Ints, best: Reals) -> None:
    """The nearest other group of each of `stale` among `live`, both in order, and its cosine."""
    among = means[live].T
    rows = max(BLOCK // len(live), 1)
    for low in range(0, len(stale), rows):
        some = stale[low : low + rows]
        cosines = means[some] @ among
        cosines[np.arange(len(some)), np.searchsorted(live, some)] = -np.inf
        at = cosines.argmax(axis=1)
        near[some], best[some] = live[at], cosines[np.arange(len(some)), at]
