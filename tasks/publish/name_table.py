"""Names of clips, more of them than fit in memory: in a database, with some numbers in memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tasks.base.arrays import Int32s, Int64s
from tasks.storage import queries
from tasks.storage.queries import MEMORY

SPEAKER = "speaker"  # a kind
#: People in rows, by their places among those.
TALKING = pa.schema({"row": pa.int32(), "name": pa.string()})


class Names(ExitStack):
    """Names of several kinds, or none, of each row; rows are added in batches."""

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
        self.database.execute(f"CREATE TABLE named (row INTEGER, {columns})")
        self.database.execute("CREATE TABLE talking (row INTEGER, name VARCHAR)")

    def __len__(self) -> int:
        return self._rows

    def add(
        self, names: Mapping[str, pa.Array | pa.ChunkedArray], talking: pa.Table | None = None
    ) -> None:
        """Append the names of the next rows by kind, null for a row without one. `talking`
        (TALKING): who speaks in these rows, beside the one whom they name."""
        size = len(names[self.kinds[0]])
        if talking is not None and len(talking):
            rows_of_all = pc.add(talking["row"], pa.scalar(self._rows, pa.int32()))
            queries.add(self.database, "talking", talking.set_column(0, "row", rows_of_all))
        rows = np.arange(self._rows, self._rows + size, dtype=np.int32)
        self._rows += size
        queries.add(self.database, "named", pa.table({"row": rows, **names}))

    def ordered(self, kind: str) -> Int32s:
        """The rows in the order of their names, as bytes."""
        sql = f"SELECT row FROM named ORDER BY {kind}, row"
        return queries.column(self.database, sql).astype(np.int32)

    def named(self, kind: str, rows: Int32s) -> pa.ChunkedArray:
        """The name of each of some rows."""
        wanted = pa.table({"row": rows, "place": np.arange(len(rows), dtype=np.int32)})
        sql = f"SELECT {kind} FROM given JOIN named USING (row) ORDER BY place"
        return queries.joined(self.database, wanted, sql)[kind]

    def numbered(self, kind: str, rows: Int32s) -> Int32s:
        """A number for the name of each of some rows; -1 for none."""
        numbers: Int32s = Nodes(self, [kind], rows).of_row[0]
        return numbers


class Nodes:
    """The different names of some rows, numbered kind by kind in the order in which these name
    them first. `of_row` int32 [kinds, rows], -1 where there is none, and `kind` [nodes], the index
    of it, may be changed; and so may `talking`: int32 [2, n], a row and who speaks in it, too."""

    def __init__(self, names: Names, kinds: Sequence[str], rows: Int32s) -> None:
        self._database = database = names.database
        chosen = pa.table({"row": rows, "place": np.arange(len(rows), dtype=np.int32)})
        spoken = [*kinds].index(SPEAKER) if SPEAKER in kinds else -1
        database.execute("CREATE OR REPLACE TABLE nodes (kind TINYINT, name VARCHAR, node INTEGER)")
        with queries.given(database, chosen):
            # A kind at a time: the names of all do not fit in memory together.
            columns = [self._number(number, kind) for number, kind in enumerate(kinds)]
            people = database.execute(
                "SELECT place, node FROM given JOIN talking USING (row) JOIN nodes USING (name) "
                f"WHERE kind = {spoken} ORDER BY place, node"
            ).fetchnumpy()
        self.talking: Int32s = np.stack(
            [np.asarray(people[n], np.int32) for n in ("place", "node")]
        )
        self.of_row: Int32s = np.stack(columns)
        kind = queries.column(database, "SELECT kind FROM nodes ORDER BY node")
        self.kind = kind.astype(np.int8)

    def _number(self, number: int, kind: str) -> Int32s:
        """Number the names of one kind; the node of each given row, -1 for none."""
        names = f"SELECT {kind} AS name, place FROM given JOIN named USING (row)"
        every = f"SELECT name, place, place AS main FROM ({names})"
        if kind == SPEAKER:
            talking = "SELECT name, place, NULL AS main FROM given JOIN talking USING (row)"
            every += f" UNION ALL {talking}"
        self._database.execute(
            f"INSERT INTO nodes SELECT {number}, name, "
            "(SELECT count(*) FROM nodes) + row_number() OVER () - 1 FROM "
            f"(SELECT name, coalesce(min(main), min(place)) AS first FROM ({every}) "
            "WHERE name IS NOT NULL GROUP BY name ORDER BY first, min(main) IS NOT NULL, name)"
        )
        sql = (
            f"SELECT coalesce(node, -1) FROM ({names}) LEFT JOIN "
            f"(SELECT name, node FROM nodes WHERE kind = {number}) USING (name) ORDER BY place"
        )
        return queries.column(self._database, sql).astype(np.int32)

    def ordered(self, kind: int) -> Int64s:
        """The nodes of a kind in the order of their names, as bytes."""
        sql = "SELECT node FROM nodes WHERE kind = ? ORDER BY name"
        return queries.column(self._database, sql, kind)

    def called(self, nodes: Int64s) -> pa.ChunkedArray:
        """The names of some nodes."""
        wanted = pa.table({"node": nodes, "place": np.arange(len(nodes))})
        return queries.joined(
            self._database, wanted, "SELECT name FROM given JOIN nodes USING (node) ORDER BY place"
        )["name"]

    def known(self, kinds: Int64s, names: pa.Array | pa.ChunkedArray) -> Int64s:
        """The node of each of these names, of these kinds; -1 for an unknown one."""
        wanted = pa.table({"kind": kinds, "name": names, "place": np.arange(len(names))})
        sql = (
            "SELECT coalesce(node, -1) AS node FROM given LEFT JOIN nodes USING (kind, name) "
            "ORDER BY place"
        )
        nodes: Int64s = queries.joined(self._database, wanted, sql)["node"].to_numpy()
        return nodes
