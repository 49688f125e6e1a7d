"""Clips to tars: equal in duration, shuffled by seed, the same whatever the work shards were."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from heapq import heapify, heapreplace


def shuffle_key(seed: int, utterance: str) -> bytes:
    """Sort key that looks random and depends on nothing but seed and id."""
    return hashlib.sha256(f"{seed}:{utterance}".encode()).digest()


def count(seconds: float, hours: float, clips: int, readers: int = 1) -> int:
    """Number of tars of about `hours` each for so much audio: a multiple of the readers where
    there are clips enough, at most one a clip, at least one."""
    wanted = max(1, round(seconds / 3600 / hours))
    return max(1, min(-(-wanted // readers) * readers, clips))


def deal(seconds: Sequence[float], keys: Sequence[bytes], tars: int) -> list[list[int]]:
    """Clips `0..n-1` dealt to `tars` groups, each in the order of its keys.

    The longest clips are dealt first, each to the lightest group: any two groups differ by at
    most one longest clip, and there is no tiny last one. Ties go by key, so that neighbours in a
    recording, or clips of a speaker, spread over the groups.
    """
    groups: list[list[int]] = [[] for _ in range(tars)]
    heap = [(0.0, index) for index in range(tars)]
    heapify(heap)
    for clip in sorted(range(len(seconds)), key=lambda i: (-seconds[i], keys[i])):
        load, index = heap[0]
        groups[index].append(clip)
        # A clip of no length counts a little, so that no group stays empty.
        heapreplace(heap, (load + max(seconds[clip], 1e-9), index))
    return [sorted(group, key=keys.__getitem__) for group in groups]


def skew(loads: Sequence[float], readers: int) -> float:
    """How much more than the mean the worst of `readers` gets, in the unit of `loads`, when tar
    `i` goes to reader `i % readers` (as WeNet's loader deals them)."""
    shares = [sum(loads[reader::readers]) for reader in range(readers)]
    return max(shares) - sum(shares) / readers
