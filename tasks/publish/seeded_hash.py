"""Pseudo-random numbers that depend only on a seed and a name: equal in every run and version."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from ..base.arrays import UInt64s
from ..storage import sorted_keys


def draws(head: str, names: Iterable[str]) -> UInt64s:
    """The first eight bytes of the sha256 of `<head>:<name>`, for each name; uint64 [names]."""
    return np.ascontiguousarray(keys(head, names)[:, 0])


def keys(head: str, names: Iterable[str]) -> UInt64s:
    """The first sixteen bytes of that hash, in practice unique; uint64 [names, 2]."""
    return sorted_keys.hashes(names, f"{head}:")
