"""Records in numbered parts, in one temporary file: more than memory holds."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Generic, Self, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

AT_ONCE = 1 << 20  # records that are sorted by part and written together

Scalar = TypeVar("Scalar", bound=np.generic)


class Parts(ExitStack, Generic[Scalar]):
    """Records of one type; those of a part stay in the order in which they came."""

    def __init__(self, dtype: DTypeLike, count: int) -> None:
        super().__init__()
        self._dtype = np.dtype(dtype)
        self._pieces: list[list[tuple[int, int]]] = [[] for _ in range(count)]  # (byte, records)
        self._file = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._end = 0
        self._waiting: list[tuple[NDArray[np.uint16], NDArray[Scalar]]] = []
        self._count = 0

    def __enter__(self) -> Self:
        return self

    def add(self, part: NDArray[np.uint16], records: NDArray[Scalar]) -> None:
        """Records, and the number of the part of each."""
        self._waiting.append((part, records))
        self._count += len(part)
        if self._count >= AT_ONCE:
            self._write()

    def finish(self) -> None:
        """All records have been added."""
        self._write()
        self._file.flush()

    def _write(self) -> None:
        if not self._count:
            return
        part, records = (np.concatenate(column) for column in zip(*self._waiting, strict=True))
        self._waiting, self._count = [], 0
        order = np.argsort(part, kind="stable")  # of 16 bits: a radix sort
        edges = np.searchsorted(part, np.arange(len(self._pieces) + 1), sorter=order)
        self._file.write(records[order].data)
        for number in np.flatnonzero(np.diff(edges)).tolist():
            size = int(edges[number + 1] - edges[number])
            at = self._end + int(edges[number]) * self._dtype.itemsize
            self._pieces[number].append((at, size))
        self._end += len(order) * self._dtype.itemsize

    def read(self, number: int) -> NDArray[Scalar]:
        """The records of a part."""
        pieces = self._pieces[number]
        found = np.empty(sum(size for _, size in pieces), self._dtype)
        at = 0
        for place, size in pieces:
            self._file.seek(place)
            self._file.readinto(found[at : at + size].data.cast("B"))
            at += size
        return found
