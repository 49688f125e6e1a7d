"""Random numbers that depend only on a seed and a name, the same in every run and version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

Draws = NDArray[np.uint64]


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
