"""DuckDB as the explorer uses it: the one place that opens it, and that writes names and texts of
others into SQL.

A column's name, a folder's and a text come from files that somebody else may have made, so none is
SQL. Should one become it all the same, it reaches no file beyond those that the explorer reads.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

import duckdb

from tasks.base.errors import ConfigError

MEMORY = "1GB"  # that DuckDB may take; beyond it, it uses its file
CONFIG: dict[str, str | bool] = {
    "memory_limit": MEMORY,
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


def connect(home: Path, readable: Iterable[Path]) -> duckdb.DuckDBPyConnection:
    """A database in the folder `home`, which reaches the files there and below `readable`, and no
    other; links are followed first. Nothing that it or a cursor of it runs can change that."""
    folders = [str(home), *map(str, readable)]
    try:
        listed = ", ".join(literal(folder.encode().decode()) for folder in folders)
    except UnicodeEncodeError:
        raise ConfigError("the explorer needs a path of OUT in UTF-8; rename the folder") from None
    database = duckdb.connect(
        str(home / "explore.duckdb"), config={**CONFIG, "temp_directory": str(home)}
    )
    for setting in (
        f"allowed_directories = [{listed}]",
        "enable_external_access = false",
        "lock_configuration = true",
    ):
        database.execute(f"SET {setting}")
    return database
