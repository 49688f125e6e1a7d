"""Average linkage by cosine: groups embeddings by person.

The mean cosine of all pairs between two groups of unit vectors is the product of their mean
vectors, so a group is stored as a mean and a weight. Groups that are each other's nearest are
joined, all such pairs at once, until no pair reaches the least cosine: for average linkage, this
equals joining one best pair after the other (F. Murtagh, "A survey of recent advances in
hierarchical clustering algorithms", 1983), and takes some tens of rounds.

More than PORTION groups are linked in portions, each together with the groups found before: memory
holds these (0.8 kB each) and one portion. Vectors that clearly belong to one earlier group join it
at once; this does not prevent any two groups from joining, as a mean is never nearer than its
nearest part. Every group is compared with all others by matrix products. Libraries of approximate
neighbours were rejected: hnswlib has no wheels, and faiss-cpu's indexes hold all vectors in memory,
7.7 GB for ten million.
"""

from typing import Protocol, TypeVar

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Float64s, Int32s, Int64s

Floats = NDArray[np.floating]
Whole = TypeVar("Whole", bound=np.integer)

PORTION = 16_384
BLOCK = 1 << 22  # cosines in memory at once
CLEAR = 0.1  # cosine above the least, if only one group reaches the least


class Means(Protocol):
    """Vectors that may lie in a file: an array, or an object that reads ranges of rows."""

    def __len__(self) -> int: ...

    def __getitem__(self, rows: slice, /) -> Floats: ...


def linked(means: Means, weights: Float64s, least: float, apart: int = 0) -> Int32s:
    """For each group (a mean vector [n, size] and a weight [n]), the index of the first group that
    it is joined with. The first `apart` groups join each other only through later ones. Ties go to
    the first."""
    owner = np.arange(len(means), dtype=np.int32)
    heads, group_means, group_weights = (
        owner[:apart],
        np.array(means[:apart]),
        weights[:apart].astype(float),
    )
    for low in range(apart, len(means), PORTION):
        portion = owner[low : low + PORTION]
        vectors, weight = np.array(means[low : low + PORTION]), weights[portion].astype(float)
        clear = _clear(vectors, group_means, least)
        joined = clear >= 0
        owner[portion[joined]] = heads[clear[joined]]
        group_means, group_weights = _with(
            group_means, group_weights, clear[joined], vectors[joined], weight[joined]
        )
        heads = np.concatenate([heads, portion[~joined]])
        group_means = np.concatenate([group_means, vectors[~joined]])
        group_weights = np.concatenate([group_weights, weight[~joined]])
        into = _link(group_means, group_weights, least, len(heads) - int((~joined).sum()))
        numbers = np.arange(len(into))
        owner[heads] = heads[into]
        heads, group_means, group_weights = (
            column[into == numbers] for column in (heads, group_means, group_weights)
        )
    return _roots(owner)


def _clear(means: Floats, groups: Floats, least: float) -> Int64s:
    """The group to which each mean clearly belongs; -1 if there is none, or more than one."""
    group = np.full(len(means), -1, np.int64)
    rows = max(BLOCK // max(len(groups), 1), 1)
    for low in range(0, len(means) if len(groups) else 0, rows):
        cosines = means[low : low + rows] @ groups.T
        best = cosines.argmax(axis=1)
        cells = np.arange(len(cosines)), best
        nearest = cosines[cells]
        cosines[cells] = -np.inf
        clear = (nearest >= least + CLEAR) & (cosines.max(axis=1) < least)
        group[low : low + rows][clear] = best[clear]
    return group


def _with(
    groups: Floats, group_weights: Float64s, joined: Int64s, means: Floats, weights: Float64s
) -> tuple[Floats, Float64s]:
    """The groups' means and weights after `means` have joined them."""
    whole = group_weights + np.bincount(joined, weights, len(group_weights))
    sums = np.zeros_like(groups)
    np.add.at(sums, joined, means * (weights / whole[joined])[:, None].astype(groups.dtype))
    share = (group_weights / np.maximum(whole, 1e-12))[:, None].astype(groups.dtype)
    return groups * share + sums, whole


def _roots(owner: NDArray[Whole]) -> NDArray[Whole]:
    while not np.array_equal(above := owner[owner], owner):
        owner = above
    return owner


def _link(means: Floats, weights: Float64s, least: float, apart: int) -> Int64s:
    """`linked` for one portion after `apart` groups; changes the means and weights of first groups
    to those of the joined ones."""
    count = len(means)
    owner = np.arange(count, dtype=np.int64)
    near, best = np.full(count, -1, np.int64), np.full(count, np.nan)
    live, stale = owner, owner[apart:]
    while len(live) > 1 and len(stale):
        while len(stale):
            _search(means, live, stale, near, best)
            asked = near[live[best[live] >= least]]
            stale = np.unique(asked[np.isnan(best[asked])])
        # A group without a near one never gets one: a mean is never nearer than its nearest part.
        live = live[~(best[live] < least)]
        searched = live[~np.isnan(best[live])]
        kept = searched[(near[near[searched]] == searched) & (searched < near[searched])]
        if not len(searched):
            break
        if not len(kept):  # rounding may make three groups nearest in a circle
            top = int(searched[best[searched].argmax()])
            kept = np.array([min(top, int(near[top]))])
            near[kept] = max(top, int(near[top]))
        joined = near[kept]
        whole = weights[kept] + weights[joined]
        share = (weights[joined] / whole)[:, None].astype(means.dtype)
        means[kept] += (means[joined] - means[kept]) * share
        weights[kept] = whole
        owner[joined] = kept
        moved = np.zeros(count, bool)
        moved[kept] = moved[joined] = True
        live = live[owner[live] == live]
        searched = live[~np.isnan(best[live])]
        stale = searched[moved[searched] | moved[near[searched]]]
    return _roots(owner)


def _search(means: Floats, live: Int64s, stale: Int64s, near: Int64s, best: Float64s) -> None:
    """Find the nearest other group among `live` for each of `stale`, both sorted, and its
    cosine."""
    among = means[live].T
    rows = max(BLOCK // len(live), 1)
    for low in range(0, len(stale), rows):
        asked = stale[low : low + rows]
        cosines = means[asked] @ among
        cosines[np.arange(len(asked)), np.searchsorted(live, asked)] = -np.inf
        place = cosines.argmax(axis=1)
        near[asked], best[asked] = live[place], cosines[np.arange(len(asked)), place]
