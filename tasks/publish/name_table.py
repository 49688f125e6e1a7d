"""Holds more names than fit in memory: in a temporary file, with four bytes of each in memory.

Names are compared by hashes of 16 bytes, which lie in two more files.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from typing import IO

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.base.arrays import Int32s, UInt8s, UInt64s
from tasks.publish.row_digests import mixed
from tasks.storage.sorted_keys import first_of_runs

BLOCK = 1 << 18  # names that are read together


class Names(ExitStack):
    """The name of each row, or none; rows are added in batches."""

    def __init__(self) -> None:
        super().__init__()
        self._text = self._file()
        self._codes = self._file(), self._file()
        self._lengths = [np.zeros(0, np.uint32)]
        self._begins: list[int] = []  # byte of each block's first name

    def _file(self) -> IO[bytes]:
        return self.enter_context(tempfile.TemporaryFile())

    def add(self, names: pa.Array | pa.ChunkedArray) -> None:
        """Append the names of the next rows, null for a row without one."""
        length, data = _bytes_of(names)
        self._text.write(data.data)
        self._lengths.append(length.astype(np.uint32))
        for file, column in zip(self._codes, codes_of(names), strict=True):
            file.write(column.data)

    def finish(self) -> None:
        """All names have been added."""
        self._lengths = [np.concatenate(self._lengths)]
        starts = range(0, len(self), BLOCK)
        sums = [int(self._lengths[0][low : low + BLOCK].sum(dtype=np.int64)) for low in starts]
        self._begins = np.cumsum([0, *sums]).tolist()

    def __len__(self) -> int:
        return len(self._lengths[0])

    def codes(self, rows: NDArray[np.integer]) -> tuple[UInt64s, UInt64s]:
        """The two halves of each row's code; 0 and 0 without a name. Reads everything from the
        first to the last row, so the rows should be close together."""
        first = int(rows.min(initial=len(self)))
        high, low = (
            _read(file, first, int(rows.max(initial=-1)) + 1)[rows - first] for file in self._codes
        )
        return high, low

    def numbered(self, rows: Int32s) -> tuple[Int32s, Int32s]:
        """The distinct names of some rows, in the order of their first rows: the number of each
        row's name (-1: it has none), and the first row of each name."""
        high, low = self.codes(rows)
        order = np.lexsort((low, high)).astype(np.int32)
        for column in (high, low):
            column[:] = column[order]
        begins = first_of_runs(high, low)
        has = (high != 0) | (low != 0)
        del high, low, column
        number = np.full(int(begins.sum()), -1, np.int32)
        first = order[begins]  # the sort is stable
        has = has[begins]
        rank = np.argsort(first[has]).astype(np.int32)
        first = first[has][rank]
        number[np.flatnonzero(has)[rank]] = np.arange(len(rank), dtype=np.int32)
        numbers = np.empty(len(rows), np.int32)
        numbers[order] = number[np.cumsum(begins, dtype=np.int32) - 1]
        return numbers, rows[first]

    def take(self, rows: NDArray[np.integer]) -> pa.LargeStringArray:
        """The names of some rows, none of them nameless; efficient for some hundred thousand at a
        time."""
        order = np.argsort(rows, kind="stable")
        ordered = rows[order]
        pieces = [pa.array([], pa.large_string())]
        blocks = np.unique(ordered // BLOCK).tolist()
        edges = np.searchsorted(ordered, [n * BLOCK for n in (*blocks, len(self) // BLOCK + 1)])
        for index, number in enumerate(blocks):
            pieces.append(
                self._block(number).take(ordered[edges[index] : edges[index + 1]] % BLOCK)
            )
        back = np.empty(len(order), np.int64)
        back[order] = np.arange(len(order))
        return pa.concat_arrays(pieces).take(pa.array(back))

    def _block(self, number: int) -> pa.LargeStringArray:
        lengths = self._lengths[0][number * BLOCK : (number + 1) * BLOCK]
        offsets = np.zeros(len(lengths) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        self._text.seek(self._begins[number])
        data = self._text.read(int(offsets[-1]))
        return pa.LargeStringArray.from_buffers(
            len(lengths), pa.py_buffer(offsets), pa.py_buffer(data)
        )


def _read(file: IO[bytes], first: int, end: int) -> UInt64s:
    file.seek(8 * first)
    return np.frombuffer(file.read(8 * max(end - first, 0)), np.uint64)


def codes_of(names: pa.Array | pa.ChunkedArray) -> tuple[UInt64s, UInt64s]:
    """The codes of names; 0 and 0 for none."""
    valid = names.is_valid().to_numpy(zero_copy_only=False)
    length, data = _bytes_of(names)
    width = -(-max(int(length.max(initial=0)), 1) // 8)
    if len(data) == 8 * width * len(length):  # as sha256 are
        padded = data.reshape(len(length), 8 * width)
    else:
        padded = np.zeros((len(length), 8 * width), np.uint8)
        padded[np.arange(8 * width) < length[:, None]] = data
    words = padded.view("<u8")
    codes = []
    for start in (1, 2):
        state = mixed(length * np.uint64(4) + np.uint64(start))
        for place in range(width):
            more = words[:, place].astype(np.uint64)
            # Only as far as the text goes: it must not depend on its neighbours.
            state = np.where(length > 8 * place, mixed(state ^ more), state)
        codes.append(np.where(valid, state, np.uint64(0)))
    return codes[0], codes[1]


def _bytes_of(names: pa.Array | pa.ChunkedArray) -> tuple[UInt64s, UInt8s]:
    """The length of each name in bytes (0: none), and all names joined."""
    whole = pc.fill_null(names.cast(pa.large_binary()), b"")
    if isinstance(whole, pa.ChunkedArray):
        whole = whole.combine_chunks()
    _, offsets, data = whole.buffers()
    edges = np.frombuffer(offsets, np.int64, len(whole) + 1, 8 * whole.offset)
    length = np.diff(edges).astype(np.uint64)
    if data is None:
        return length, np.zeros(0, np.uint8)
    return length, np.frombuffer(data, np.uint8, int(edges[-1] - edges[0]), int(edges[0]))
