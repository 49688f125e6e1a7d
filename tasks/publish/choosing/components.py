"""Components: clips connected by a shared recording, a shared speaker or equal samples; and how
new ones are allocated to splits, so that each comes near its hours.

A component is never divided between splits. Speakers, recordings and PCM are the nodes of a graph,
and each row connects its own three. Texts are nodes too; `text_splits.py` connects those. All data
are columns; names are in a database (`name_table.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...base.arrays import Bools, Int32s, Int64s
from ...recording import ids
from ...settings import PackageSettings, Split
from ...storage import sorted_keys
from ..name_table import Nodes

KINDS = ("speaker", "recording", "pcm", "text")
SPEAKING, RECORDING, PCM, TEXT = range(len(KINDS))
HOUR = 3_600_000_000  # µs
BATCH = 1 << 18  # names hashed together

Sides = NDArray[np.int16]  # indices into a list of split names; -1: none
#: Reads the given columns of a `splits.parquet`, a table at a time.
SplitTable = Callable[[list[str]], Iterable[pa.Table]]


def speakers_in(rows: pa.Table) -> pa.ChunkedArray:
    """A unique name of each row's speaker (columns dataset, speaker). A name from a source is
    qualified by its dataset; a name of a speaker across recordings is not. Null: unknown."""
    nobody = pa.scalar(None, pa.string())
    speaker = pc.if_else(pc.equal(rows["speaker"], ""), nobody, rows["speaker"])
    qualified = pc.binary_join_element_wise(rows["dataset"], speaker, "/")
    return pc.if_else(ids.are_over_all(rows["speaker"]), speaker, qualified)


def published_splits(nodes: Nodes, published: SplitTable, names: list[str]) -> Sides:
    """Each node's split in `splits.parquet`, as an index into `names`; int16 [nodes]; -1: none."""
    split = np.full(len(nodes.kind), -1, np.int16)
    for table in published(["kind", "name", "split"]):
        side = pc.index_in(table["split"], pa.array(names, pa.string()))
        sides = side.fill_null(-1).to_numpy().astype(np.int16)
        kind = pc.index_in(table["kind"], pa.array(KINDS)).fill_null(-1).to_numpy()
        node = nodes.known(kind, table["name"])
        split[node[node >= 0]] = sides[node >= 0]
    return split


def with_talking(nodes: Nodes) -> Int32s:
    """`nodes.of_row`, followed by a column for each further person who speaks in a row: it connects
    that person with the row's speaker. Sets the speaker of a row that names none to the first
    person who speaks in it. int32 [KINDS, rows + people]."""
    row, person = nodes.talking
    if not len(row):
        return nodes.of_row
    first = sorted_keys.first_of_runs(row)
    nameless = nodes.of_row[SPEAKING, row[first]] < 0
    nodes.of_row[SPEAKING, row[first][nameless]] = person[first][nameless]
    more = np.full((len(KINDS), len(row)), -1, np.int32)
    more[0], more[1] = person, nodes.of_row[SPEAKING, row]  # any two kinds would do
    return np.concatenate((nodes.of_row, more), axis=1)


def components_of(of_row: Int32s, split: Sides, kept: Bools) -> Int32s:
    """The component of each row; int32 [rows]. Rows that share a node without a split share a
    component; -1: the row is not `kept`, or all of its nodes have a split.

    `of_row`: int32 [KINDS, rows], the nodes of each row, -1: none. `split`: of each node.
    """
    from scipy.sparse import coo_array
    from scipy.sparse.csgraph import connected_components

    padded = np.append(split, np.int16(0))  # the last for node -1
    free = np.stack([kept & (padded[row] < 0) for row in of_row])
    has = free.any(axis=0)
    rows = slice(None) if has.all() else np.flatnonzero(has)  # the others have no component
    new = np.where(free[:, rows], of_row[:, rows], np.int32(-1))
    del padded, free, has

    # A node with a single row connects nothing, so it is not in the graph.
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
    for a, b in ((0, 1), (1, 2), (0, 2)):  # all pairs of kinds but texts
        both = (places[a] >= 0) & (places[b] >= 0)
        code = np.sort(places[a][both].astype(np.int64) << 32 | places[b][both])
        edges.append(code[sorted_keys.first_of_runs(code)])
    one, other = (np.concatenate(edges) >> shift & 0xFFFFFFFF for shift in (32, 0))
    graph = coo_array((np.ones(len(one), np.int8), (one, other)), (count, count))
    groups, component = connected_components(graph, directed=False)
    component = np.append(component, 0)  # the last for place -1
    last = places.max(axis=0, initial=-1)
    some = np.where(alone >= 0, component[last], -1)
    single = (last < 0) & (alone >= 0)
    some[single] = groups + np.arange(int(single.sum()))
    component_of_row: Int32s = np.full(len(kept), -1, np.int32)
    component_of_row[rows] = some
    return component_of_row


def agreed(component: Int32s, split: Sides, count: int) -> tuple[Sides, Bools]:
    """The split of each component (-1: none of its rows has one), and whether its rows have
    several. Both have an entry more than `count`, for component -1."""
    has = (component >= 0) & (split >= 0)
    most, least = np.full(count + 1, -1, np.int16), np.full(count + 1, np.iinfo(np.int16).max)
    np.maximum.at(most, component[has], split[has])
    np.minimum.at(least, component[has], split[has])
    return most, most > least


# Lengths are integer microseconds, because sums of integers do not depend on their order.


def microseconds(rows: pa.Table) -> Int64s:
    """µs of each row (columns num_samples, sample_rate)."""
    samples, rates = rows["num_samples"].to_numpy(), rows["sample_rate"].to_numpy()
    lengths: Int64s = np.rint(samples.astype(np.float64) * 1e6 / rates).astype(np.int64)
    return lengths


def targets(settings: PackageSettings, names: list[str], total: int) -> Int64s:
    """µs that each split should have; 0 for `train` and for lists. Fractions are of `total` (µs);
    splits with hours get at most what keeps all targets below half of `total`."""
    shares = [settings.splits.get(name) for name in names]
    fractions = [total * s if isinstance(s, float) else 0 for s in shares]
    hours = [(s.hours or 0) * HOUR if isinstance(s, Split) else 0 for s in shares]
    parts, fixed = np.array(fractions, np.float64), np.array(hours, np.float64)
    room = max(total / 2 - parts.sum(), 0)
    target: Int64s = np.rint(parts + fixed * min(1, room / max(fixed.sum(), 1))).astype(np.int64)
    return target


def order(seed: int, nodes: Nodes, component: Int32s, free: Bools) -> Int64s:
    """The order in which new components are allocated, as positions among their sorted numbers: by
    a seeded hash of each component's first name. `component`: of each row; `free`: whether the row
    is in a new component.
    """
    count = len(np.unique(component[free]))
    first = np.full(int(component.max(initial=-1)) + 1, -1, np.int32)  # the node of that name
    # Later kinds overwrite: speakers' names take precedence over recordings', and these over PCM.
    for kind in (PCM, RECORDING, SPEAKING):
        has = free & (nodes.of_row[kind] >= 0)
        node = nodes.of_row[kind][has]
        is_used = np.zeros(len(nodes.kind), bool)
        is_used[node] = True
        by_name = nodes.ordered(kind)
        by_name = by_name[is_used[by_name]]
        rank = np.zeros(len(is_used), np.int32)
        rank[by_name] = np.arange(len(by_name), dtype=np.int32)
        least = np.full(len(first), len(by_name), np.int32)
        np.minimum.at(least, component[has], rank[node])
        named = least < len(by_name)
        first[named] = by_name[least[named]]
        del has, node, is_used, rank, least
    chosen = first[first >= 0]
    draw = np.empty(count, np.uint64)
    by_kind = np.argsort(chosen, kind="stable")  # nodes of a kind are adjacent
    for portion in np.array_split(by_kind, max(-(-count // BATCH), 1)):
        for kind in np.unique(nodes.kind[chosen[portion]]).tolist():
            some = portion[nodes.kind[chosen[portion]] == kind]
            names_of = (f"{KINDS[kind]} {name}" for name in nodes.called(chosen[some]).to_pylist())
            draw[some] = sorted_keys.draws(f"{seed}:split", names_of)
    return np.argsort(draw, kind="stable")


def allocate(sizes: Int64s, lacking: Int64s, hours: Int64s, train: int) -> Sides:
    """The split of each new component, in the order given.

    `sizes` [components]: µs; `lacking` [splits]: µs between a split's target and what it has,
    train's is ignored; `hours` [splits]: µs that a split has already; `train`: index of train.
    """
    sides = np.full(len(sizes), train, np.int16)
    missing = {
        split: int(lack) for split, lack in enumerate(lacking) if lack > 0 and split != train
    }
    rest = int(hours[train] + sizes.sum())
    smallest = int(sizes.min(initial=0))
    for index in range(len(sizes)):
        size = int(sizes[index])
        room = max(missing.values(), default=-1)
        if room < smallest:
            break
        if size <= room and rest - size >= size:
            split = max(missing, key=lambda split: (missing[split], -split))
            sides[index] = split
            missing[split] -= size
            rest -= size
    # Each split now lacks less than train's smallest component: it takes that one if this helps.
    free = np.flatnonzero(sides == train)
    free = free[np.argsort(sizes[free], kind="stable")]
    for split in sorted(missing, key=lambda split: (-missing[split], split)):
        size = int(sizes[free[0]]) if len(free) else 0
        empty = hours[split] == 0 and not (sides == split).any()
        if 0 < size <= rest - size and missing[split] > 0 and (empty or 2 * missing[split] > size):
            sides[free[0]] = split
            free = free[1:]
            rest -= size
    return sides
