"""Random numbers that depend only on a seed and a name, the same in every run and version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Draws = NDArray[np.uint64]
BATCH = 1 << 20


def draws(head: str, names: Iterable[str]) -> Draws:
    """The first eight bytes of the sha256 of `<head>:<name>`, for each name; uint64 [names]."""
    return np.ascontiguousarray(keys(head, names)[:, 0])


def keys(head: str, names: Iterable[str]) -> Draws:
    """The first sixteen bytes, which no two names share; uint64 [names, 2]."""
    start = hashlib.sha256(f"{head}:".encode())
    found = bytearray()
    for name in names:
        state = start.copy()
        state.update(name.encode())
        found += state.digest()[:16]
    return np.frombuffer(bytes(found), ">u8").astype(np.uint64).reshape(-1, 2)


def places_of(high: Draws, low: Draws, among_high: Draws, among_low: Draws) -> NDArray[np.int64]:
    """Where each key is among others, which are sorted; -1: nowhere."""
    found = np.full(len(high), -1, np.int64)
    if not len(among_high):
        return found
    for low_end in range(0, len(high), BATCH):
        some = slice(low_end, low_end + BATCH)
        at = np.minimum(np.searchsorted(among_high, high[some]), len(among_high) - 1)
        good = (among_high[at] == high[some]) & (among_low[at] == low[some])
        found[some] = np.where(good, at, -1)
    return found
