"""DuckDB: opens every database except that of `flows/explore/sandbox.py`, where a person's SQL may
do less; and quotes foreign names and texts in SQL.

It sorts, joins and groups tables of the whole corpus: beyond its memory limit it uses temporary
files. Should a foreign name become SQL, it reaches no other file.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing, contextmanager
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from ..base.arrays import Int64s
from ..base.errors import ConfigError, RunError
from .tables import LIMIT, order_by, take

if TYPE_CHECKING:  # it takes tens of MB; only some processes need it
    from duckdb import DuckDBPyConnection

MEMORY = "1GB"
AT_ONCE = 1 << 14  # rows of a record batch of a result
#: What `ordered` sorts without DuckDB: so many rows, or such a part of its memory.
FEW, HELD = 50_000, 0.75
UNITS = {"MB": 10**6, "MiB": 2**20, "GB": 10**9, "GiB": 2**30}
CONFIG: dict[str, str | bool | int | float | list[str]] = {
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,  # names in SQL never mean variables of this process
    # So many rows of a sorted table are chosen by their sort keys, before other columns are read.
    "late_materialization_max_rows": 1000,
}


def identifier(name: str) -> str:
    """A column's or a table's name, quoted."""
    return '"' + name.replace('"', '""') + '"'


def literal(text: str) -> str:
    """A quoted text, where DuckDB takes no bound value, as in a view."""
    return "'" + text.replace("'", "''") + "'"


def is_pattern(path: Path) -> bool:
    """Whether DuckDB would read a path of Parquet files as a glob pattern."""
    return not {*"*?[]{}"}.isdisjoint(str(path))


def connect(
    home: Path,
    readable: Iterable[Path] = (),
    memory: str = MEMORY,
    name: str = ":memory:",
    threads: int | None = None,
) -> DuckDBPyConnection:
    """A database in memory, or in the file `name` of `home`. It can read files in `home` and below
    `readable`, and no others; no SQL run in it can change that."""
    import duckdb

    folders = [str(home), *map(str, readable)]
    try:
        "".join(folders).encode()
    except UnicodeEncodeError:
        raise ConfigError("the explorer needs a path of OUT in UTF-8; rename the folder") from None
    config = {**CONFIG, "memory_limit": memory, "temp_directory": str(home)}
    if threads is not None:
        config["threads"] = threads
    database = duckdb.connect(name if name == ":memory:" else str(home / name), config=config)
    for setting in (
        "parquet_metadata_cache = true",
        f"allowed_directories = [{', '.join(map(literal, folders))}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        database.execute(f"SET {setting}")
    return database


def size_of(memory: str) -> float:
    """The bytes of an amount of memory, such as "1GB"."""
    number = memory.rstrip("GiMB ")
    return float(number) * UNITS[memory.removeprefix(number).strip()]


@contextmanager
def tables(
    memory: str = MEMORY,
    scratch: Path | None = None,
    divisor: int = 1,
    readable: Iterable[Path] = (),
) -> Iterator[DuckDBPyConnection]:
    """A database for temporary tables, which can read files below `readable`. Beyond `memory`,
    divided by `divisor` where other databases need some of it, they go to `scratch` (None: TMPDIR).
    RunError if memory or disk are too small."""
    import duckdb

    parent = Path(tempfile.gettempdir()) if scratch is None else scratch
    parent.mkdir(parents=True, exist_ok=True)
    part = f"{size_of(memory) / divisor:.0f}B"
    try:
        with (
            tempfile.TemporaryDirectory(dir=parent) as folder,
            closing(connect(Path(folder), readable, part, threads=1)) as database,
        ):
            yield database
    except (duckdb.OutOfMemoryException, duckdb.TransactionException, duckdb.IOException) as no:
        why = str(no).partition("\n")[0]
        raise RunError(
            f"tables of the corpus fit neither into {memory} of memory nor into {parent} ({why}); "
            "raise package.memory, or make room there"
        ) from None


@contextmanager
def given(database: DuckDBPyConnection, rows: pa.Table) -> Iterator[None]:
    """Inside, queries can use `rows` as the table `given`."""
    database.register("given", rows)
    try:
        yield
    finally:
        database.unregister("given")


def add(database: DuckDBPyConnection, table: str, rows: pa.Table) -> None:
    """Append rows to a table with the same columns."""
    with given(database, rows):
        database.execute(f"INSERT INTO {table} BY NAME SELECT * FROM given")


def joined(database: DuckDBPyConnection, rows: pa.Table, sql: str) -> pa.Table:
    """The result of a query that uses `rows` as the table `given`."""
    with given(database, rows):
        return database.sql(sql).to_arrow_table()


@contextmanager
def streamed(
    database: DuckDBPyConnection, rows: Iterable[pa.Table], schema: pa.Schema, sql: str
) -> Iterator[Iterator[pa.RecordBatch]]:
    """`joined` for tables of this schema, in record batches; neither side is held in memory as a
    whole. Errors of `rows` come out as they are."""
    import duckdb

    errors: list[Exception] = []

    def batches() -> Iterator[pa.RecordBatch]:
        try:
            for table in rows:
                yield from table.cast(schema).to_batches()
        except Exception as error:  # DuckDB would replace it by one of its own
            errors.append(error)
            raise

    database.register("given", pa.RecordBatchReader.from_batches(schema, batches()))
    try:
        with database.sql(sql).to_arrow_reader(AT_ONCE) as result:
            yield iter(result)
    except duckdb.Error:
        if errors:
            raise errors[0] from None
        raise
    finally:
        database.unregister("given")


@contextmanager
def ordered(
    rows: Iterable[pa.Table],
    schema: pa.Schema,
    by: Sequence[str],
    memory: str = MEMORY,
    scratch: Path | None = None,
) -> Iterator[Iterator[pa.RecordBatch]]:
    """Rows (tables of this schema), sorted by columns; beyond `memory`, in `scratch`. What fits
    there is sorted without DuckDB, at half its cost."""
    limit, size, count = min(HELD * size_of(memory), LIMIT), 0, 0
    first, rest = [schema.empty_table()], (table.cast(schema) for table in rows)
    for part in rest:
        first.append(part)
        size, count = size + part.nbytes, count + len(part)
        if size > limit and count > FEW:
            break
    else:
        yield _sorted(first, by)
        return
    sql = f"SELECT * FROM given ORDER BY {', '.join(map(identifier, by))}"
    every = chain((first.pop(0) for _ in range(len(first))), rest)
    with tables(memory, scratch) as database, streamed(database, every, schema, sql) as batches:
        yield batches


def _sorted(parts: list[pa.Table], by: Sequence[str]) -> Iterator[pa.RecordBatch]:
    """The rows of these tables, sorted by columns; empties the list, to save memory."""
    whole = pa.concat_tables(parts)
    parts.clear()
    if whole.nbytes > LIMIT:
        yield from take(whole, order_by(whole, by)).to_batches(AT_ONCE)
        return
    columns, schema = whole.columns, whole.schema
    del whole
    for number in range(len(columns)):  # one at a time, so that only one is held twice
        columns[number] = columns[number].combine_chunks()
        pa.default_memory_pool().release_unused()  # small pieces, which no large array can reuse
    whole = pa.table(columns, schema=schema)
    order = order_by(whole, by)
    for low in range(0, len(order), AT_ONCE):
        yield from whole.take(pa.array(order[low : low + AT_ONCE])).to_batches()


def column(database: DuckDBPyConnection, sql: str, *values: object) -> Int64s:
    """The only column of a query's result: integers without nulls."""
    [numbers] = database.execute(sql, list(values)).fetchnumpy().values()
    return np.asarray(numbers, np.int64)


def order(
    texts: Iterable[pa.Array | pa.ChunkedArray], memory: str = MEMORY, scratch: Path | None = None
) -> Int64s:
    """The indices that sort texts (in chunks) by their bytes; equal ones keep their order."""
    with tables(memory, scratch) as database:
        database.execute("CREATE TABLE texts (number BIGINT, text VARCHAR)")
        first = 0
        for some in texts:
            numbers = np.arange(first, first + len(some))
            add(database, "texts", pa.table({"number": numbers, "text": some}))
            first += len(some)
        return column(database, "SELECT number FROM texts ORDER BY text, number")
