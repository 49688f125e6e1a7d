"""Clips to tars: equal in duration, shuffled by seed, the same whatever the work shards were."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from heapq import heapify, heapreplace

import numpy as np
from numpy.typing import NDArray


def draws(head: str, names: Iterable[str]) -> NDArray[np.uint64]:
    """A number for each name that looks random and depends on nothing but `head` and the name:
    the first eight bytes of the sha256 of `<head>:<name>`."""
    start = hashlib.sha256(f"{head}:".encode())
    found = bytearray()
    for name in names:
        state = start.copy()
        state.update(name.encode())
        found += state.digest()[:8]
    return np.frombuffer(bytes(found), ">u8").astype(np.uint64)


def count(seconds: float, hours: float, clips: int, readers: int = 1) -> int:
    """Number of tars of about `hours` each for so much audio: a multiple of the readers where
    there are clips enough, at most one a clip, at least one."""
    wanted = max(1, round(seconds / 3600 / hours))
    return max(1, min(-(-wanted // readers) * readers, clips))


def deal(
    seconds: NDArray[np.float64], keys: NDArray[np.uint64], tars: int
) -> list[NDArray[np.int64]]:
    """Clips `0..n-1` dealt to `tars` groups, each in the order of its keys.

    The longest clips are dealt first, each to the lightest group: any two groups differ by at
    most one longest clip, and there is no tiny last one. Ties go by key, then by place, so that
    neighbours in a recording, or clips of a speaker, spread over the groups; in a group they lie
    as their keys shuffle them.
    """
    order = np.lexsort((keys, -seconds))
    # A clip of no length counts a little, so that no group stays empty.
    lengths = np.maximum(seconds[order], 1e-9).tolist()
    heap = [(0.0, index) for index in range(tars)]
    heapify(heap)
    dealt = []
    for length in lengths:
        load, index = heap[0]
        dealt.append(index)
        heapreplace(heap, (load + length, index))
    group = np.empty(len(order), np.int64)
    group[order] = dealt
    shuffled = np.lexsort((keys, group))
    ends = np.cumsum(np.bincount(group, minlength=tars))
    return np.split(shuffled, ends[:-1])


def skew(loads: Sequence[float], readers: int) -> float:
    """How much more than the mean the worst of `readers` gets, in the unit of `loads`, when tar
    `i` goes to reader `i % readers` (as WeNet's loader deals them)."""
    shares = [sum(loads[reader::readers]) for reader in range(readers)]
    return max(shares) - sum(shares) / readers
