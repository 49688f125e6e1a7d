"""What is never parted by splits: clips that share a recording, a speaker or their samples.

Speakers, recordings and PCM are nodes; a row joins its own three. All over columns: a million rows
take seconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

KINDS = ("speaker", "recording", "pcm")

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


class Nodes(NamedTuple):
    """Speakers, recordings and PCM; each has a number. `of_row` [3, rows], -1: there is none."""

    kind: NDArray[np.int8]
    name: pa.Array
    of_row: Ints


def nodes_of(rows: pa.Table) -> Nodes:
    nobody = pa.scalar(None, pa.string())
    speaker = pc.if_else(pc.equal(rows["speaker"], ""), nobody, rows["speaker"])
    columns = (
        pc.binary_join_element_wise(rows["dataset"], speaker, "/"),
        rows["recording"],
        rows["sha256"],
    )
    names, numbers, kinds = [], [], []
    at = 0
    for kind, column in enumerate(columns):
        coded = column.combine_chunks().dictionary_encode()
        codes = coded.indices.fill_null(-1).to_numpy(zero_copy_only=False).astype(np.int64)
        numbers.append(np.where(codes < 0, -1, codes + at))
        names.append(coded.dictionary)
        kinds.append(np.full(len(coded.dictionary), kind, np.int8))
        at += len(coded.dictionary)
    return Nodes(np.concatenate(kinds), pa.concat_arrays(names), np.stack(numbers))


def sides_before(nodes: Nodes, before: pa.Table, names: list[str]) -> Ints:
    """Side of each node, -1 where it was never on one."""
    side = np.full(len(nodes.kind), -1, np.int64)
    for number, kind in enumerate(KINDS):
        mine = nodes.kind == number
        then = before.filter(pc.equal(before["kind"], kind))
        at = pc.index_in(nodes.name.filter(pa.array(mine)), then["name"])
        number_of = pc.index_in(then["split"], pa.array(names, pa.string())).take(at)
        side[mine] = number_of.fill_null(-1).to_numpy()
    return side


def groups_of(nodes: Nodes, side: Ints, kept: Bools) -> Ints:
    """Group of each row: rows that share a node that was on no side before are in one."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    new = np.where((nodes.of_row >= 0) & (side[nodes.of_row] < 0) & kept, nodes.of_row, -1)
    ends = [(new[a], new[b]) for a, b in ((0, 1), (1, 2), (0, 2))]
    one, other = (
        np.concatenate([pair[end][(pair[0] >= 0) & (pair[1] >= 0)] for pair in ends])
        for end in (0, 1)
    )
    count = len(nodes.kind)
    graph = coo_array((np.ones(len(one), bool), (one, other)), (count, count))
    _, component = connected_components(graph, directed=False)
    any_new = new.max(axis=0, initial=-1)
    group: Ints = np.where(any_new >= 0, component[any_new], -1).astype(np.int64)
    return group


def agreed(group: Ints, side: Ints, count: int) -> tuple[Ints, Bools]:
    """The side that rows of each group have, -1 where none has one; and whether two differ."""
    has = (group >= 0) & (side >= 0)
    most, least = np.full(count + 1, -1, np.int64), np.full(count + 1, np.iinfo(np.int64).max)
    np.maximum.at(most, group[has], side[has])
    np.minimum.at(least, group[has], side[has])
    return most, most > least
