"""Blocks of samples: cut anew, and checked."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator

import numpy as np

from tasks.audio.kinds import Samples


def regroup(blocks: Iterable[Samples], size: int) -> Iterator[Samples]:
    """The same samples in pieces of `size`; the last one may be shorter."""
    held: list[Samples] = []
    count = 0
    for block in blocks:
        at = 0
        while count + len(block) - at >= size:
            piece = block[at : at + size - count]
            at += len(piece)
            yield np.concatenate([*held, piece]) if held else piece
            held, count = [], 0
        if at < len(block):
            held.append(block[at:])
            count += len(block) - at
    if held:
        yield np.concatenate(held)


def all_finite(samples: Samples) -> bool:
    """Whether no sample is NaN or infinite."""
    # One such sample makes the sum of squares so, too, which is read off in one pass over memory.
    # The sum of large, finite samples may overflow: they are looked at one by one.
    if samples.flags.c_contiguous:
        flat = samples.reshape(-1)
        if math.isfinite(np.dot(flat, flat)):
            return True
    return bool(np.isfinite(samples).all())
