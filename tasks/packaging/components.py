"""Components: clips connected by a shared recording, speaker or equal samples.

A component is never divided between splits. Speakers, recordings and PCM are nodes of a graph; a
row connects its own three. Everything is columns: a million rows take seconds.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.recording import ids

KINDS = ("speaker", "recording", "pcm")

Ints = NDArray[np.int64]
Bools = NDArray[np.bool_]


def speakers_in(rows: pa.Table) -> pa.ChunkedArray:
    """Each row's speaker (columns dataset, speaker), as no two people are called: names that
    sources state belong to their dataset, those over all recordings do not. Null: unknown."""
    nobody = pa.scalar(None, pa.string())
    speaker = pc.if_else(pc.equal(rows["speaker"], ""), nobody, rows["speaker"])
    anywhere = pc.match_substring_regex(rows["speaker"], f"^{ids.OVER_ALL.pattern}$")
    own = pc.binary_join_element_wise(rows["dataset"], speaker, "/")
    return pc.if_else(anywhere, speaker, own)


class Nodes(NamedTuple):
    """Speakers, recordings and PCM, numbered."""

    kind: NDArray[np.int8]  # [nodes], index of KINDS
    name: pa.Array  # [nodes]
    of_row: Ints  # [3, rows]; -1: there is none


def nodes_of(rows: pa.Table) -> Nodes:
    columns = (
        speakers_in(rows),
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


def published_splits(nodes: Nodes, published: pa.Table, names: list[str]) -> Ints:
    """The split of each node by `splits.parquet`, as an index of `names`; -1: it has none yet."""
    split = np.full(len(nodes.kind), -1, np.int64)
    for number, kind in enumerate(KINDS):
        mine = nodes.kind == number
        then = published.filter(pc.equal(published["kind"], kind))
        at = pc.index_in(nodes.name.filter(pa.array(mine)), then["name"])
        number_of = pc.index_in(then["split"], pa.array(names, pa.string())).take(at)
        split[mine] = number_of.fill_null(-1).to_numpy()
    return split


def components_of(nodes: Nodes, split: Ints, kept: Bools) -> Ints:
    """The component of each row: rows that share a node without a split are in one; -1: all of a
    row's nodes have a split."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    new = np.where((nodes.of_row >= 0) & (split[nodes.of_row] < 0) & kept, nodes.of_row, -1)
    ends = [(new[a], new[b]) for a, b in ((0, 1), (1, 2), (0, 2))]
    one, other = (
        np.concatenate([pair[end][(pair[0] >= 0) & (pair[1] >= 0)] for pair in ends])
        for end in (0, 1)
    )
    count = len(nodes.kind)
    graph = coo_array((np.ones(len(one), bool), (one, other)), (count, count))
    _, component = connected_components(graph, directed=False)
    any_new = new.max(axis=0, initial=-1)
    found: Ints = np.where(any_new >= 0, component[any_new], -1).astype(np.int64)
    return found


def agreed(component: Ints, split: Ints, count: int) -> tuple[Ints, Bools]:
    """The split that the rows of each component have (-1: none), and whether they differ."""
    has = (component >= 0) & (split >= 0)
    most, least = np.full(count + 1, -1, np.int64), np.full(count + 1, np.iinfo(np.int64).max)
    np.maximum.at(most, component[has], split[has])
    np.minimum.at(least, component[has], split[has])
    return most, most > least
