"""Distributes clips over tar shards of equal duration, shuffled by seed, independent of work
shards."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

import numpy as np

from tasks.base.arrays import Float64s, Int64s, UInt64s

BATCH = 1 << 18  # clips whose lengths are held as Python's numbers


def count(seconds: float, hours: float, clips: int, readers: int = 1) -> int:
    """Number of tar shards of about `hours` each: a multiple of the readers if there are enough
    clips, at most one a clip, at least one."""
    wanted = max(1, round(seconds / 3600 / hours))
    return max(1, min(-(-wanted // readers) * readers, clips))


def distribute(seconds: Float64s, keys: UInt64s, shards: int) -> list[Int64s]:
    """Clips `0..n-1` distributed over `shards` shards, in each ordered by their keys.

    The longest clip goes first, each to the lightest shard: any two shards differ by at most one
    longest clip, and no small last shard remains. Ties go by key, then by position, so that
    neighbours in a recording, or clips of a speaker, spread over the shards.
    """
    order = np.lexsort((keys, -seconds))
    heap = [(0.0, index) for index in range(shards)]
    heapify(heap)
    group = np.empty(len(order), np.int32)
    for low in range(0, len(order), BATCH):
        some = order[low : low + BATCH]
        chosen = []
        # A clip of no length counts a little, so that no shard stays empty.
        for length in np.maximum(seconds[some], 1e-9).tolist():
            load, index = heap[0]
            chosen.append(index)
            heapreplace(heap, (load + length, index))
        group[some] = chosen
    del order
    shuffled = np.lexsort((keys, group))
    ends = np.cumsum(np.bincount(group, minlength=shards))
    return np.split(shuffled, ends[:-1])


def skew(loads: Sequence[float], readers: int) -> tuple[float, float]:
    """By how much the most loaded of `readers` exceeds the mean, in the unit of `loads` and as a
    fraction, if reader `i % readers` gets tar `i`, as in WeNet's loader."""
    shares = [sum(loads[reader::readers]) for reader in range(readers)]
    extra = max(shares) - sum(shares) / readers
    return extra, extra * readers / sum(loads) if sum(loads) else 0.0
