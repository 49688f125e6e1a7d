"""Random numbers that depend only on a seed and a name, the same in every run and version."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray


def draws(head: str, names: Iterable[str]) -> NDArray[np.uint64]:
    """The first eight bytes of the sha256 of `<head>:<name>`, for each name; uint64 [names]."""
    start = hashlib.sha256(f"{head}:".encode())
    found = bytearray()
    for name in names:
        state = start.copy()
        state.update(name.encode())
        found += state.digest()[:8]
    return np.frombuffer(bytes(found), ">u8").astype(np.uint64)
