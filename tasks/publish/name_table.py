"""Names of clips (ids, speakers, recordings, texts, …) in a database, because they do not fit in
memory, and their numbers as arrays in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from ..base.arrays import Int32s, Int64s
from ..storage import queries
from ..storage.queries import MEMORY

SPEAKER = "speaker"  # a kind of names
#: Further people who speak in a row; `row`: place among the rows of the same call of `Names.add`.
TALKING = pa.schema({"row": pa.int32(), "name": pa.string()})


class Names(ExitStack):
    """The names of each row, at most one of each kind; rows are added in batches.

    Tables: `clip_names` (row, a column for each kind), and `turn_speakers` (row, name): further
    people who speak in a row.
    """

    def __init__(
        self,
        kinds: Sequence[str],
        memory: str = MEMORY,
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
