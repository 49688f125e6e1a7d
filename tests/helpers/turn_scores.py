"""Diarization error and its parts, by frames of 10 ms.

DER (NIST): missed, false and confused speaker time divided by all speaker time, with speakers
mapped one to one so that the most time agrees; 0.25 s on each side of a true boundary do not count.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment

from uttermill.tasks.diarizers import Turn

Frames = NDArray[np.bool_]
COLLAR = 25  # frames


def frames_of(turns: Sequence[Turn], rate: int, count: int) -> Frames:
    """Turns as Boolean [frames, speakers]."""
    speakers = max((turn.speaker for turn in turns), default=-1) + 1
    found = np.zeros((count, speakers), np.bool_)
    for turn in turns:
        found[round(turn.start * 100 / rate) : round(turn.end * 100 / rate), turn.speaker] = True
    return found


@dataclass(frozen=True, slots=True)
class Errors:
    """In frames; `speech`: true speaker time."""

    speech: int
    missed: int
    false: int
    confused: int

    @property
    def der(self) -> float:
        return (self.missed + self.false + self.confused) / max(self.speech, 1)


def mapping(truth: Frames, found: Frames) -> dict[int, int]:
    """The true speaker for each found speaker that has one."""
    shared = found.astype(np.int64).T @ truth.astype(np.int64)
    rows, columns = linear_sum_assignment(-shared)
    return {int(r): int(c) for r, c in zip(rows, columns, strict=True) if shared[r, c]}


def errors(truth: Frames, found: Frames, without_overlap: bool = False) -> Errors:
    counted = np.ones(len(truth), np.bool_)
    for speaker in range(truth.shape[1]):
        for edge in np.flatnonzero(np.diff(np.r_[0, truth[:, speaker].astype(np.int8), 0])):
            counted[max(edge - COLLAR, 0) : edge + COLLAR] = False
    if without_overlap:
        counted &= truth.sum(axis=1) < 2
    of = mapping(truth, found)
    named = np.zeros_like(truth)
    for mine, theirs in of.items():
        named[:, theirs] |= found[:, mine]
    n_true, n_found = truth.sum(axis=1)[counted], found.sum(axis=1)[counted]
    right = (truth & named).sum(axis=1)[counted]
    return Errors(
        int(n_true.sum()),
        int(np.maximum(n_true - n_found, 0).sum()),
        int(np.maximum(n_found - n_true, 0).sum()),
        int((np.minimum(n_true, n_found) - right).sum()),
    )


def overlap(truth: Frames, found: Frames) -> tuple[int, int, int]:
    """Numbers of frames with overlap: correctly found, found, true."""
    true, mine = truth.sum(axis=1) > 1, found.sum(axis=1) > 1
    return int((true & mine).sum()), int(mine.sum()), int(true.sum())
