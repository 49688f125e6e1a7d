"""Components: clips connected by a shared recording, speaker or equal samples.

A component is never divided between splits. Speakers, recordings and PCM are nodes of a graph; a
row connects its own three. Texts are nodes too, which `text_splits.py` connects. Everything is
columns; names lie in files (`names.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from tasks.base.arrays import Bools, Int32s, Int64s, UInt64s
from tasks.publish.name_table import Names, codes_of
from tasks.recording import ids
from tasks.storage import sorted_keys

KINDS = ("speaker", "recording", "pcm", "text")
TEXT = KINDS.index("text")
AT_ONCE = 1 << 21  # nodes that are looked up together

Sides = NDArray[np.int16]  # indices of names of splits; -1: none
#: The parts of a `splits.parquet`, in these columns.
SplitTable = Callable[[list[str]], Iterable[pa.Table]]


def speakers_in(rows: pa.Table) -> pa.ChunkedArray:
    """A unique name of each row's speaker (columns dataset, speaker): a name stated by a source is
    qualified by its dataset, one linked over all recordings is not. Null: unknown."""
    nobody = pa.scalar(None, pa.string())
    speaker = pc.if_else(pc.equal(rows["speaker"], ""), nobody, rows["speaker"])
    anywhere = pc.match_substring_regex(rows["speaker"], f"^{ids.OVER_ALL.pattern}$")
    qualified = pc.binary_join_element_wise(rows["dataset"], speaker, "/")
    return pc.if_else(anywhere, speaker, qualified)


class Nodes(NamedTuple):
    """Speakers, recordings, PCM and texts, numbered in the order in which rows name them."""

    names: tuple[Names, ...]  # of rows, by kind
    kind: NDArray[np.int8]  # [nodes], index of KINDS
    first: Int32s  # [nodes]: index of the node's name in `names`
    of_row: Int32s  # [4, rows]; -1: there is none

    def called(self, nodes: Int64s) -> pa.LargeStringArray:
        """The names of some nodes, all of one kind."""
        return self.names[self.kind[nodes[0]]].take(self.first[nodes])


def nodes_of(names: tuple[Names, ...], rows: Int32s) -> Nodes:
    """The nodes of some rows, in their order. `names`: of all rows, by kind."""
    kinds, firsts = [], []
    of_row = np.empty((len(KINDS), len(rows)), np.int32)
    first_node = 0
    for kind, column in enumerate(names):
        number, first = column.numbered(rows)
        of_row[kind] = np.where(number < 0, -1, number + first_node)
        kinds.append(np.full(len(first), kind, np.int8))
        firsts.append(first)
        first_node += len(first)
    return Nodes(names, np.concatenate(kinds), np.concatenate(firsts), of_row)


def published_splits(nodes: Nodes, published: SplitTable, names: list[str]) -> Sides:
    """Each node's split in `splits.parquet`, as an index of `names`; -1: none yet."""
    split = np.full(len(nodes.kind), -1, np.int16)
    codes = [_sorted_codes(nodes, number) for number in range(len(KINDS))]
    for table in published(["kind", "name", "split"]):
        side = pc.index_in(table["split"], pa.array(names, pa.string()))
        sides = side.fill_null(-1).to_numpy().astype(np.int16)
        for kind, (high, low, node) in zip(KINDS, codes, strict=True):
            of_kind = pc.equal(table["kind"], kind)
            if len(high) and pc.any(of_kind).as_py():
                position = sorted_keys.places_of(
                    *codes_of(table["name"].filter(of_kind)), high, low
                )
                split[node[position[position >= 0]]] = sides[of_kind.to_numpy()][position >= 0]
    return split


def _sorted_codes(nodes: Nodes, kind: int) -> tuple[UInt64s, UInt64s, Int32s]:
    """The codes of the nodes of a kind, sorted, and the node of each."""
    node = np.flatnonzero(nodes.kind == kind).astype(np.int32)
    high, low = np.empty((2, len(node)), np.uint64)
    for begin in range(0, len(node), AT_ONCE):
        some = slice(begin, begin + AT_ONCE)
        high[some], low[some] = nodes.names[kind].codes(nodes.first[node[some]])
    order = np.argsort(high).astype(np.int32)  # a stable sort takes more memory
    for column in (high, low, node):
        column[:] = column[order]
    return high, low, node


def components_of(nodes: Nodes, split: Sides, kept: Bools) -> Int32s:
    """The component of each row; rows that share a node without a split share a component. -1 if
    every node of the row has a split."""
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    padded = np.append(split, np.int16(0))  # of -1
    free = np.stack([kept & (padded[row] < 0) for row in nodes.of_row])
    has = free.any(axis=0)
    rows = slice(None) if has.all() else np.flatnonzero(has)  # the others are in no component
    new = np.where(free[:, rows], nodes.of_row[:, rows], np.int32(-1))
    del padded, free, has

    # A node of one row connects nothing: only the others are in the graph.
    times = np.zeros(len(split), np.int32)
    for row in new:
        times += np.bincount(row[row >= 0], minlength=len(split)).astype(np.int32)
    alone = new.max(axis=0, initial=-1)
    place = np.append(np.where(times > 1, np.cumsum(times > 1, dtype=np.int32) - 1, -1), -1)
    count = int((times > 1).sum())
    places = new
    for row in places:
        row[:] = place[row]
    del times, place
    edges = [np.zeros(0, np.int64)]
    for a, b in ((0, 1), (1, 2), (0, 2)):  # no texts
        both = (places[a] >= 0) & (places[b] >= 0)
        code = np.sort(places[a][both].astype(np.int64) << 32 | places[b][both])
        edges.append(code[sorted_keys.first_of_runs(code)])
    one, other = (np.concatenate(edges) >> shift & 0xFFFFFFFF for shift in (32, 0))
    graph = coo_array((np.ones(len(one), np.int8), (one, other)), (count, count))
    groups, component = connected_components(graph, directed=False)
    component = np.append(component, 0)  # of -1
    last = places.max(axis=0, initial=-1)
    some = np.where(alone >= 0, component[last], -1)
    single = (last < 0) & (alone >= 0)
    some[single] = groups + np.arange(int(single.sum()))
    component_of_row: Int32s = np.full(len(kept), -1, np.int32)
    component_of_row[rows] = some
    return component_of_row


def agreed(component: Int32s, split: Sides, count: int) -> tuple[Sides, Bools]:
    """The split of each component's rows (-1: none), and whether its rows are in several."""
    has = (component >= 0) & (split >= 0)
    most, least = np.full(count + 1, -1, np.int16), np.full(count + 1, np.iinfo(np.int16).max)
    np.maximum.at(most, component[has], split[has])
    np.minimum.at(least, component[has], split[has])
    return most, most > least
