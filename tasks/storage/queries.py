"""DuckDB: the place that opens it for all but `flows/explore/sandbox.py`, where a person's SQL may
do less; and the one that writes names and texts of others into SQL.

Tables of the whole corpus are sorted, joined and grouped by it: beyond its limit of memory it
works in temporary files. A column's name, a folder's and a text come from files that somebody else
may have made, so none is SQL. Should one become it all the same, it reaches no other file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from tasks.base import process_memory
from tasks.base.arrays import Int64s
from tasks.base.errors import ConfigError, RunError

if TYPE_CHECKING:  # loading it takes some tens of MB, which only processes that ask it need
    from duckdb import DuckDBPyConnection

MEMORY = "1GB"
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,  # a name in SQL is never a variable of this process
}


def identifier(name: str) -> str:
    """A column's or a table's name, whatever it holds."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A text where DuckDB takes no bound value, as in a view."""
    return "'" + text.replace("'", "''") + "'"


def is_pattern(path: Path) -> bool:
    """Whether DuckDB takes a path of Parquet files for a pattern."""
    return not {*"*?[]{}"}.isdisjoint(str(path))


def connect(
    home: Path,
    readable: Iterable[Path] = (),
    memory: str = MEMORY,
    name: str = ":memory:",
    threads: int | None = None,
) -> DuckDBPyConnection:
    """A database, in memory or in a file `name` of the folder `home`, which reaches the files there
    and below `readable`, and no other; links are followed first. Nothing that it or a cursor of it
    runs can change that."""
    import duckdb

    # DuckDB's binding prints at the end of the process whatever of it no search has removed.
    process_memory.search_at_exit()
    folders = [str(home), *map(str, readable)]
    try:
        listed = ", ".join(literal(folder.encode().decode()) for folder in folders)
    except UnicodeEncodeError:
        raise ConfigError("the explorer needs a path of OUT in UTF-8; rename the folder") from None
    config = {**CONFIG, "memory_limit": memory, "temp_directory": str(home)}
    if threads is not None:
        config["threads"] = threads
    database = duckdb.connect(name if name == ":memory:" else str(home / name), config=config)
    for setting in (
        "parquet_metadata_cache = true",
        f"allowed_directories = [{listed}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        database.execute(f"SET {setting}")
    return database


@contextmanager
def tables(memory: str = MEMORY, scratch: Path | None = None) -> Iterator[DuckDBPyConnection]:
    """A database of tables that are made in it; beyond `memory` they lie in a temporary folder in
    `scratch` (TMPDIR, if None). One thread. RunError if memory or disk are too small."""
    import duckdb

    with tempfile.TemporaryDirectory(dir=scratch) as folder:
        database = connect(Path(folder), memory=memory, threads=1)
        try:
            yield database
        except (duckdb.OutOfMemoryException, duckdb.TransactionException, duckdb.IOException) as no:
            why = str(no).partition("\n")[0]
            raise RunError(
                f"tables of the corpus fit neither into {memory} of memory nor into "
                f"{Path(folder).parent} ({why}); raise package.memory, or make room there"
            ) from None
        finally:
            database.close()


@contextmanager
def given(database: DuckDBPyConnection, rows: pa.Table) -> Iterator[None]:
    """Queries may ask `rows`, as the table `given`."""
    database.register("given", rows)
    try:
        yield
    finally:
        database.unregister("given")


def add(database: DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    """Append rows to a table that has their columns."""
    with given(database, rows):
        database.execute(f"INSERT INTO {table} BY NAME SELECT * FROM given")


def joined(database: DuckDBPyConnection, rows: pa.Table, sql: str) -> pa.Table:
    """The answer to a query that asks `rows`, too, as the table `given`."""
    with given(database, rows):
        return database.sql(sql).to_arrow_table()


def column(database: DuckDBPyConnection, sql: str, *values: object) -> Int64s:
    """A query's only column, of integers and no nulls."""
    [numbers] = database.execute(sql, list(values)).fetchnumpy().values()
    return np.asarray(numbers, np.int64)


def order(
    texts: Iterable[pa.Array | pa.ChunkedArray], memory: str = MEMORY, scratch: Path | None = None
) -> Int64s:
    """The numbers of texts, given some at a time, in the order of their bytes; equal ones as they
    came. Beyond `memory`, they lie in `scratch`."""
    with tables(memory, scratch) as database:
        database.execute("CREATE TABLE texts (number BIGINT, text VARCHAR)")
        first = 0
        for some in texts:
            numbers = np.arange(first, first + len(some))
            add(database, "texts", pa.table({"number": numbers, "text": some}))
            first += len(some)
        return column(database, "SELECT number FROM texts ORDER BY text, number")
