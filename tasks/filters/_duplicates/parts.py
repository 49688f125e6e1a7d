"""Records in numbered parts, in one temporary file: more than memory holds."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import DTypeLike, NDArray

from tasks.base.arrays import Int64s, UInt16s

AT_ONCE = 1 << 20  # records that are sorted by part and written together

Scalar = TypeVar("Scalar", bound=np.generic)


class PartitionedRecords(ExitStack, Generic[Scalar]):
    """Records of one type; those of a part stay in the order in which they came."""

    def __init__(self, dtype: DTypeLike, count: int) -> None:
        super().__init__()
        self._dtype = np.dtype(dtype)
        self._parts = count
        self._edges: list[Int64s] = []  # of the parts, in each piece of the file
        self._file = self.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        self._end = 0
        self._waiting: list[tuple[UInt16s, NDArray[Scalar]]] = []
        self._count = 0

    def add(self, part: UInt16s, records: NDArray[Scalar]) -> None:
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
        edges = np.searchsorted(part, np.arange(self._parts + 1), sorter=order)
        self._file.write(records[order].data)
        self._edges.append(self._end + edges)
        self._end += len(order)

    def read(self, number: int) -> NDArray[Scalar]:
        """The records of a part."""
        pieces = [edges[number : number + 2].tolist() for edges in self._edges]
        records = np.empty(sum(high - low for low, high in pieces), self._dtype)
        filled = 0
        for low, high in pieces:
            if high > low:
                self._file.seek(low * self._dtype.itemsize)
                self._file.readinto(records[filled : filled + high - low].data.cast("B"))
                filled += high - low
        return records
