"""Looks up many keys among sorted ones at once."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from ..base.arrays import Bools, Int64s, UInt64s

Key = TypeVar("Key", bound=np.generic)
Value = TypeVar("Value", bound=np.signedinteger)

BATCH = 1 << 20  # keys per lookup


def index_in(ordered: NDArray[Key], wanted: NDArray[Key]) -> Int64s:
    """The index of each wanted key in `ordered`; -1 if it is missing."""
    if not len(ordered):
        return np.full(len(wanted), -1, np.int64)
    index = np.searchsorted(ordered, wanted)
    index[index == len(ordered)] = 0
    return np.where(ordered[index] == wanted, index, -1)


def value_of(ordered: NDArray[Key], values: NDArray[Value], wanted: NDArray[Key]) -> NDArray[Value]:
    """The value of each wanted key (`values` belong to `ordered`); -1 if it is missing."""
    index = index_in(ordered, wanted)
    result = np.full(len(wanted), -1, values.dtype)
    result[index >= 0] = values[index[index >= 0]]
    return result


def places_of(high: UInt64s, low: UInt64s, among_high: UInt64s, among_low: UInt64s) -> Int64s:
    """`index_in` for keys in two columns. Keys are looked up in sorted order, so that memory access
    is sequential: a quarter of the time."""
    result = np.full(len(high), -1, np.int64)
    for begin in range(0, len(high) if len(among_high) else 0, BATCH):
        batch = begin + np.argsort(high[begin : begin + BATCH])
        place = np.minimum(np.searchsorted(among_high, high[batch]), len(among_high) - 1)
        good = (among_high[place] == high[batch]) & (among_low[place] == low[batch])
        result[batch] = np.where(good, place, -1)
    return result


def first_of_runs(*columns: NDArray[np.generic]) -> Bools:
    """For sorted columns: whether each row differs from the previous one."""
    first = np.ones(len(columns[0]), bool)
    first[1:] = False
    for column in columns:
        first[1:] |= column[1:] != column[:-1]
    return first


def hashes(names: Iterable[str], head: str = "") -> UInt64s:
    """The first sixteen bytes of the sha256 of `head` followed by each name; uint64 [names, 2]."""
    start = hashlib.sha256(head.encode())
    digests = bytearray()
    for name in names:
        state = start.copy()
        state.update(name.encode())
        digests += state.digest()[:16]
    return np.frombuffer(bytes(digests), ">u8").astype(np.uint64).reshape(-1, 2)


def draws(head: str, names: Iterable[str]) -> UInt64s:
    """Pseudo-random numbers that depend only on a seed (`head`) and a name: the first eight bytes
    of the sha256 of `<head>:<name>`; uint64 [names]."""
    return np.ascontiguousarray(hashes(names, f"{head}:")[:, 0])
