"""Voices of windows to speakers of the recording: average linkage by cosine, in bounded memory.

A cluster is kept as a sum and a weight (`tasks.speech.linkage`), so clusters of one portion of the
recording go on being linked with those of the next exactly as single voices would.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tasks.arrays import Float32s, Float64s
from tasks.speech.linkage import linked

PORTION = 400  # voices that are linked at once, beside the clusters known so far


class Linker:
    """Takes unit vectors with weights, and links them in portions."""

    def __init__(self, cut: float) -> None:
        self._least = 1 - cut  # cosine
        self._sums: list[Float64s] = []
        self._weights: list[float] = []
        self._owner: list[int] = []  # cluster of each voice added
        self._loose: list[tuple[Float64s, float]] = []

    def add(self, vector: Float32s, weight: float) -> None:
        self._loose.append((vector.astype(np.float64) * weight, weight))
        if len(self._loose) == PORTION:
            self._link()

    def finish(self) -> tuple[list[int], Float64s, Float64s]:
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
        if not sums:
            return
        whole, weight = np.array(sums), np.array(weights)
        firsts, place = np.unique(
            linked(whole / weight[:, None], weight, self._least), return_inverse=True
        )
        self._owner = [int(place[owner]) for owner in self._owner]
        self._owner += place[known:].tolist()
        self._sums = [whole[place == at].sum(axis=0) for at in range(len(firsts))]
        self._weights = [float(weight[place == at].sum()) for at in range(len(firsts))]
        self._loose = []


def assigned(voices: Sequence[tuple[int, Float32s]], means: Float64s) -> dict[int, int]:
    """Which speaker each local voice of a window is, no two the same one if there are enough:
    the assignment of the largest summed cosine."""
    from scipy.optimize import linear_sum_assignment

    if not voices or not len(means):
        return {}
    near = np.stack([vector for _, vector in voices]).astype(np.float64) @ means.T
    rows, columns = linear_sum_assignment(-near)
    return {voices[r][0]: int(c) for r, c in zip(rows, columns, strict=True)}
