"""Columns with more text than fits in one Arrow array: offsets of `string` have 32 bits, so it ends
at 2 GiB (33 million hashes).

A column of many chunks may be longer, and can be read and filtered; operations that join its chunks
(`take`, `combine_chunks`) fail. Tables of a whole corpus go through these functions instead, which
keep the types; those of a shard, a batch or a row group are far smaller.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from ..base.arrays import Int32s

LIMIT = 2**31 - 1  # bytes of an array
Scalar = TypeVar("Scalar", bound=np.generic)


def take(table: pa.Table, rows: NDArray[np.integer]) -> pa.Table:
    """These rows, in this order. Each column is one chunk, unless it is too long for that.
    ArrowInvalid if rows that are taken again make one too long that was not."""
    if table.nbytes <= LIMIT and len(rows) <= len(table):
        return table.combine_chunks().take(pa.array(rows))
    columns = []
    for column in table.columns:
        wide = column.cast(_wide(column.type)).combine_chunks()
        columns.append(pa.chunked_array(_pieces(wide, rows, column.type), column.type))
        del wide
    return pa.table(columns, schema=table.schema)


def _pieces(column: pa.Array, rows: NDArray[np.integer], kind: pa.DataType) -> Iterator[pa.Array]:
    taken = column.take(pa.array(rows))
    if taken.nbytes <= LIMIT or len(rows) < 2 or column.type == kind:
        yield taken.cast(kind)
        return
    del taken
    for half in np.array_split(rows, 2):
        yield from _pieces(column, half, kind)


def _wide(kind: pa.DataType) -> pa.DataType:
    """The same type with 64-bit offsets."""
    types = pa.types
    if types.is_string(kind):
        return pa.large_string()
    if types.is_binary(kind):
        return pa.large_binary()
    if types.is_list(kind):
        return pa.large_list(kind.value_field.with_type(_wide(kind.value_type)))
    if types.is_struct(kind):
        fields = (kind.field(number) for number in range(kind.num_fields))
        return pa.struct([field.with_type(_wide(field.type)) for field in fields])
    return kind


def numbered(column: pa.ChunkedArray, numbers: dict[str, int]) -> Int32s:
    """The number of each row's name; names that `numbers` lacks get the next ones in it."""
    names = coded(column)
    number_of = [numbers.setdefault(n, len(numbers)) for n in names.dictionary.to_pylist()]
    codes: Int32s = np.array(number_of, np.int32)[names.indices.to_numpy()]
    return codes


def coded(column: pa.ChunkedArray) -> pa.DictionaryArray:
    """The column, dictionary-encoded in order of first appearance. The distinct values must fit one
    array."""
    return column.dictionary_encode().combine_chunks()


def joined(pieces: list[NDArray[Scalar]]) -> NDArray[Scalar]:
    """The pieces as one array; empties the list, to save memory."""
    whole = np.concatenate(pieces)
    pieces.clear()
    return whole
