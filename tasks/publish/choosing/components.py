"""Components: clips connected by a shared recording, a shared speaker or equal samples; and how
new ones are allocated to splits, so that each comes near its hours.

A component is never divided between splits. Speakers, recordings and PCM are the nodes of a graph,
and each row connects its own three. Texts are nodes too; `text_splits.py` connects those. All data
are columns; names (of ids, speakers, recordings, texts) do not fit in memory and are in a database.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from ...base.arrays import Bools, Int32s, Int64s
from ...recording.names import are_over_all
from ...settings import PackageSettings, Split
from ...storage import queries, sorted_keys

KINDS = ("speaker", "recording", "pcm", "text")
SPEAKING, RECORDING, PCM, TEXT = range(len(KINDS))
HOUR = 3_600_000_000  # µs
BATCH = 1 << 18  # names hashed together

SPEAKER = "speaker"  # a kind of names
#: Further people who speak in a row; `row`: place among the rows of the same call of `Names.add`.
TALKING = pa.schema({"row": pa.int32(), "name": pa.string()})

Sides = NDArray[np.int16]  # indices into a list of split names; -1: none
#: Reads the given columns of a `splits.parquet`, a table at a time.
SplitTable = Callable[[list[str]], Iterable[pa.Table]]


class Names(ExitStack):
    """The names of each row, at most one of each kind; rows are added in batches.

    Tables: `clip_names` (row, a column for each kind), and `turn_speakers` (row, name): further
    people who speak in a row.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        memory: str = queries.MEMORY,
        scratch: Path | None = None,
        divisor: int = 1,
    ) -> None:
        super().__init__()
        self.kinds, self._rows = kinds, 0
        self.database = self.enter_context(queries.tables(memory, scratch, divisor))
        columns = ", ".join(f"{kind} VARCHAR" for kind in kinds)
        self.database.execute(f"CREATE TABLE clip_names (row INTEGER, {columns})")
        self.database.execute("CREATE TABLE turn_speakers (row INTEGER, name VARCHAR)")

    def __len__(self) -> int:
        return self._rows

    def add(
        self, names: Mapping[str, pa.Array | pa.ChunkedArray], talking: pa.Table | None = None
    ) -> None:
        """Append the next rows: `names` by kind, null for a row without one; `talking` (TALKING):
        who speaks in these rows besides the speaker that they name."""
        size = len(names[self.kinds[0]])
        if talking is not None and len(talking):
            rows_of_all = pc.add(talking["row"], pa.scalar(self._rows, pa.int32()))
            queries.add(self.database, "turn_speakers", talking.set_column(0, "row", rows_of_all))
        rows = np.arange(self._rows, self._rows + size, dtype=np.int32)
        self._rows += size
        queries.add(self.database, "clip_names", pa.table({"row": rows, **names}))

    def ordered(self, kind: str) -> Int32s:
        """The numbers of the rows, sorted by the bytes of their names."""
        sql = f"SELECT row FROM clip_names ORDER BY {kind}, row"
        return queries.column(self.database, sql).astype(np.int32)

    def named(self, kind: str, rows: Int32s) -> pa.ChunkedArray:
        wanted = pa.table({"row": rows, "place": np.arange(len(rows), dtype=np.int32)})
        sql = f"SELECT {kind} FROM given JOIN clip_names USING (row) ORDER BY place"
        return queries.joined(self.database, wanted, sql)[kind]


class Nodes:
    """The distinct names of some rows: nodes, numbered kind by kind in the order of their first
    rows.

    `of_row`: int32 [kinds, rows], the nodes of each row, -1: none; `kind`: int8 [nodes], index of
    the node's kind; `talking`: int32 [2, n], rows and further people who speak in them, as nodes.
    Callers may change these arrays. Table: `nodes` (kind, name, node).
    """

    def __init__(self, names: Names, kinds: Sequence[str], rows: Int32s) -> None:
        self._database = database = names.database
        chosen = pa.table({"row": rows, "place": np.arange(len(rows), dtype=np.int32)})
        speaker_kind = [*kinds].index(SPEAKER) if SPEAKER in kinds else -1
        database.execute("CREATE OR REPLACE TABLE nodes (kind TINYINT, name VARCHAR, node INTEGER)")
        with queries.given(database, chosen):
            # One kind at a time: the names of all kinds do not fit in memory together.
            columns = [self._number(number, kind) for number, kind in enumerate(kinds)]
            people = database.execute(
                "SELECT place, node "
                "FROM given JOIN turn_speakers USING (row) JOIN nodes USING (name) "
                f"WHERE kind = {speaker_kind} ORDER BY place, node"
            ).fetchnumpy()
        self.talking: Int32s = np.stack(
            [np.asarray(people[n], np.int32) for n in ("place", "node")]
        )
        self.of_row: Int32s = np.stack(columns)
        kind = queries.column(database, "SELECT kind FROM nodes ORDER BY node")
        self.kind = kind.astype(np.int8)

    def _number(self, number: int, kind: str) -> Int32s:
        """Insert the names of one kind into `nodes`; returns the node of each given row, -1: none.

        New nodes are numbered by `first_place`: the first place whose row has the name itself
        (`own_place`), else the first at which somebody with that name speaks in a turn.
        """
        row_names = f"SELECT {kind} AS name, place FROM given JOIN clip_names USING (row)"
        all_names = f"SELECT name, place, place AS own_place FROM ({row_names})"
        if kind == SPEAKER:
            all_names += (
                " UNION ALL SELECT name, place, NULL AS own_place "
                "FROM given JOIN turn_speakers USING (row)"
            )
        distinct = (
            "SELECT name, coalesce(min(own_place), min(place)) AS first_place, "
            "min(own_place) IS NOT NULL AS is_own "
            f"FROM ({all_names}) WHERE name IS NOT NULL GROUP BY name"
        )
        numbered = "row_number() OVER (ORDER BY first_place, is_own, name)"
        self._database.execute(
            f"INSERT INTO nodes SELECT {number}, name, "
            f"(SELECT count(*) FROM nodes) + {numbered} - 1 FROM ({distinct})"
        )
        sql = (
            f"SELECT coalesce(node, -1) FROM ({row_names}) LEFT JOIN "
            f"(SELECT name, node FROM nodes WHERE kind = {number}) USING (name) ORDER BY place"
        )
        return queries.column(self._database, sql).astype(np.int32)

    def ordered(self, kind: int) -> Int64s:
        """The nodes of a kind, sorted by the bytes of their names."""
        sql = "SELECT node FROM nodes WHERE kind = ? ORDER BY name"
        return queries.column(self._database, sql, kind)

    def called(self, nodes: Int64s) -> pa.ChunkedArray:
        wanted = pa.table({"node": nodes, "place": np.arange(len(nodes))})
        return queries.joined(
            self._database, wanted, "SELECT name FROM given JOIN nodes USING (node) ORDER BY place"
        )["name"]

    def known(self, kinds: Int64s, names: pa.Array | pa.ChunkedArray) -> Int64s:
        """The node of each name; `kinds`: the index of each name's kind; -1: no such node."""
        wanted = pa.table({"kind": kinds, "name": names, "place": np.arange(len(names))})
        sql = (
            "SELECT coalesce(node, -1) AS node FROM given LEFT JOIN nodes USING (kind, name) "
            "ORDER BY place"
        )
        nodes: Int64s = queries.joined(self._database, wanted, sql)["node"].to_numpy()
        return nodes


def speakers_in(rows: pa.Table) -> pa.ChunkedArray:
    """A unique name of each row's speaker (columns dataset, speaker). A name from a source is
    qualified by its dataset; a name of a speaker across recordings is not. Null: unknown."""
    nobody = pa.scalar(None, pa.string())
    speaker = pc.if_else(pc.equal(rows["speaker"], ""), nobody, rows["speaker"])
    qualified = pc.binary_join_element_wise(rows["dataset"], speaker, "/")
    return pc.if_else(are_over_all(rows["speaker"]), speaker, qualified)


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
