"""Blocks of samples: regrouping, energy, and a check for finite values."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from .types import Samples

BLOCK_FRAMES = 65536  # frames of a decoded block
BLOCK_VALUES = 1 << 21  # frames x channels of a block: 8 MB for any number of channels
ROW = 4096  # samples summed at once


def regroup(blocks: Iterable[Samples], size: int) -> Iterator[Samples]:
    """The same samples in pieces of `size`; the last one may be shorter."""
    pending: list[Samples] = []
    count = 0
    for block in blocks:
        start = 0
        while count + len(block) - start >= size:
            piece = block[start : start + size - count]
            start += len(piece)
            yield np.concatenate([*pending, piece]) if pending else piece
            pending, count = [], 0
        if start < len(block):
            pending.append(block[start:])
            count += len(block) - start
    if pending:
        yield np.concatenate(pending)


def energy(samples: Samples) -> float:
    """Sum of the squares of contiguous samples; infinite or NaN if it overflows float32."""
    # In rows: BLAS spreads longer products over all cores.
    flat = samples.reshape(-1)
    cut = len(flat) - len(flat) % ROW
    rows, rest = flat[:cut].reshape(-1, ROW), flat[cut:]
    with np.errstate(over="ignore", invalid="ignore"):
        return float(np.vecdot(rows, rows).sum()) + float(np.vecdot(rest, rest))


def all_finite(samples: Samples) -> bool:
    # A NaN or an infinity makes the sum of squares non-finite, and that takes one pass over memory.
    # Large finite samples may overflow the sum: then every sample is checked.
    if samples.flags.c_contiguous and math.isfinite(energy(samples)):
        return True
    return bool(np.isfinite(samples).all())
