"""Voices of windows to speakers of the recording: average linkage by cosine, in bounded memory."""

from __future__ import annotations

import numpy as np

from tasks.base.arrays import Float64s
from tasks.diarizers._windows import Window
from tasks.speech.linkage import linked

PORTION = 400  # voices that are linked at once, beside the clusters known so far


def clusters(vectors: Float64s, weights: Float64s, least: float) -> tuple[Float64s, Float64s]:
    """Summed vectors [k, size] and weights [k] of the clusters of unit vectors [n, size] with
    weights [n], whose mean cosines are `least` or more.

    A cluster is kept as a sum and a weight, so those of one portion of the recording go on being
    linked with the voices of the next exactly as single voices would.
    """
    sums, totals = np.empty((0, vectors.shape[1])), np.empty(0)
    for low in range(0, len(vectors), PORTION):
        added = weights[low : low + PORTION]
        sums = np.concatenate([sums, vectors[low : low + PORTION] * added[:, None]])
        totals = np.concatenate([totals, added])
        heads = linked(sums / totals[:, None], totals, least)
        members = [heads == head for head in np.unique(heads)]
        sums = np.array([sums[member].sum(axis=0) for member in members])
        totals = np.array([totals[member].sum() for member in members])
    return sums, totals


def speaker_of_local(window: Window, means: Float64s) -> dict[int, int]:
    """The speaker of each local speaker with a voice, of those with mean vectors [k, 192]; no two
    the same one if there are enough: the assignment of the largest summed cosine. If there are too
    few, the nearest."""
    from scipy.optimize import linear_sum_assignment

    if not window.voices:
        return {}
    cosines = np.stack([voice.vector for voice in window.voices]).astype(np.float64) @ means.T
    speakers = cosines.argmax(axis=1)
    voices, assigned = linear_sum_assignment(-cosines)
    speakers[voices] = assigned
    return {v.local: int(speaker) for v, speaker in zip(window.voices, speakers, strict=True)}
