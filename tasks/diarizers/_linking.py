"""Voices of windows to speakers of the recording: average linkage by cosine, in bounded memory.

The mean cosine of all pairs between two clusters of unit vectors is the product of their mean
vectors, so a cluster is kept as a sum and a count, and clusters of one portion of the recording go
on being linked with those of the next exactly as single voices would.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Doubles = NDArray[np.float64]

PORTION = 400  # voices that are linked at once, beside the clusters known so far


class Linker:
    """Takes unit vectors with weights, and links them in portions."""

    def __init__(self, cut: float) -> None:
        self._least = 1 - cut  # cosine
        self._sums: list[Doubles] = []
        self._weights: list[float] = []
        self._owner: list[int] = []  # cluster of each voice added
        self._loose: list[tuple[Doubles, float]] = []

    def add(self, vector: NDArray[np.float32], weight: float) -> None:
        self._loose.append((vector.astype(np.float64) * weight, weight))
        if len(self._loose) == PORTION:
            self._link()

    def finish(self) -> tuple[list[int], Doubles, Doubles]:
        """The cluster of each voice in the order added, the clusters' summed vectors [k, n], and
        their weights [k]."""
        self._link()
        size = self._sums[0].shape[0] if self._sums else 0
        sums = np.array(self._sums).reshape(-1, size)
        return self._owner, sums, np.array(self._weights)

    def _link(self) -> None:
        known = len(self._sums)
        sums = [*self._sums, *(s for s, _ in self._loose)]
        weights = [*self._weights, *(w for _, w in self._loose)]
        groups = linked(np.array(sums), np.array(weights), self._least) if sums else []
        place = {member: at for at, group in enumerate(groups) for member in group}
        self._owner = [place[owner] for owner in self._owner]
        self._owner += [place[known + i] for i in range(len(self._loose))]
        self._sums = [np.sum([sums[i] for i in group], axis=0) for group in groups]
        self._weights = [sum(weights[i] for i in group) for group in groups]
        self._loose = []


def linked(sums: Doubles, weights: Doubles, least: float) -> list[list[int]]:
    """Groups of clusters [k, n] whose mean cosine is at least `least`, each sorted, in the order of
    their first members. Ties go to the first pair."""
    groups: list[list[int]] = [[i] for i in range(len(sums))]
    means = sums / weights[:, None]
    weights = weights.copy()
    near = means @ means.T
    np.fill_diagonal(near, -np.inf)
    while len(groups) > 1:
        best = int(near.argmax())
        a, b = sorted(divmod(best, near.shape[1]))
        if near[a, b] < least:
            break
        # Of the pair, the mean cosine with any other is the weighted mean of both.
        whole = weights[a] + weights[b]
        row = (weights[a] * near[a] + weights[b] * near[b]) / whole
        weights[a] = whole
        row[a] = row[b] = -np.inf
        near[a], near[:, a] = row, row
        near[b], near[:, b] = -np.inf, -np.inf
        groups[a] += groups[b]
        groups[b] = []
    return sorted(sorted(group) for group in groups if group)


def assigned(voices: Sequence[tuple[int, NDArray[np.float32]]], means: Doubles) -> dict[int, int]:
    """Which speaker each local voice of a window is, no two the same one if there are enough:
    the assignment of the largest summed cosine."""
    from scipy.optimize import linear_sum_assignment

    if not voices or not len(means):
        return {}
    near = np.stack([vector for _, vector in voices]).astype(np.float64) @ means.T
    rows, columns = linear_sum_assignment(-near)
    return {voices[r][0]: int(c) for r, c in zip(rows, columns, strict=True)}
