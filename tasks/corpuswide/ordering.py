"""Sorts more texts than fit in memory.

A radix sort: texts are cut into words of eight bytes, with a temporary file for each position, and
sorted by these words as numbers, last position first. Sorting takes 40 bytes of memory a text.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import IO

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Ints = NDArray[np.int64]
CUT = 8  # bytes


class Order(ExitStack):
    """Texts, added some at a time."""

    def __init__(self) -> None:
        super().__init__()
        self._files: list[IO[bytes]] = []
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def add(self, texts: pa.Array | pa.ChunkedArray) -> None:
        """The next texts, none of them null."""
        whole = np.array(texts.cast(pa.large_binary()).to_pylist(), np.bytes_)
        width = -(-max(whole.itemsize, 1) // CUT) * CUT
        cuts = whole.astype(f"S{width}").view(">u8").reshape(len(whole), width // CUT)
        for place in range(cuts.shape[1]):
            if place == len(self._files):
                self._files.append(self.enter_context(tempfile.TemporaryFile()))  # noqa: SIM115
            # Where texts before were shorter, the file has a hole: zeros.
            self._files[place].seek(CUT * self._count)
            self._files[place].write(np.ascontiguousarray(cuts[:, place]).data)
        self._count += len(whole)

    def numbers(self) -> Ints:
        """The numbers of the texts in the order of their bytes; equal ones as they came."""
        order = np.arange(self._count)
        for file in reversed(self._files):
            file.truncate(CUT * self._count)
            file.seek(0)
            cuts = np.frombuffer(file.read(), ">u8")[order].astype(np.uint64)
            if (cuts[1:] < cuts[:-1]).any():
                order = order[np.argsort(cuts, kind="stable")]
        return order
