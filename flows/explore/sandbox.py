"""Runs a person's SQL in a sandbox: on a read-only copy of a version's table, in a separate process
with limits of time, memory and rows, without access to files or the network.

As a program, it reads the JSON `{"path", "sql"}` on stdin and writes one JSON object to stdout.
"""

from __future__ import annotations

import json
import math
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from ...tasks.base import environment
from ...tasks.base.errors import ConfigError
from ...tasks.base.json_types import JsonObject

SECONDS = 20  # of one query
POLL = 0.2  # s between looks at whether the explorer ends
ROWS = 1000  # of its result
CHARACTERS = 8_000_000  # of the texts of its result
LONGEST = 20_000  # characters of a query
MEMORY = "512MB"  # of DuckDB
ADDRESSES = 4 << 30  # bytes of address space of the process
_CONFIG: dict[str, Any] = {
    "enable_external_access": False,
    "memory_limit": MEMORY,
    "threads": 2,
    "temp_directory": "",
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "lock_configuration": True,
}


def answer(database: Path, sql: str, going_on: Callable[[], None]) -> JsonObject:
    """`columns`, `rows` and whether there are `more`. ConfigError for an invalid query, or one that
    reaches a limit. `going_on` may end it by an exception."""
    if len(sql) > LONGEST:
        raise ConfigError(f"a query has up to {LONGEST:,} characters")
    pipes: Any = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    asked: str | None = json.dumps({"path": str(database), "sql": sql})
    command = environment.python("-m", "uttermill.flows.explore.sandbox")
    began, printed = time.monotonic(), None
    with subprocess.Popen(
        command, **pipes, env=environment.of_child(), text=True, cwd="/"
    ) as running:
        try:
            while printed is None:
                with suppress(subprocess.TimeoutExpired):
                    printed = running.communicate(asked, timeout=POLL)[0]
                asked = None
                going_on()
                if printed is None and time.monotonic() - began > SECONDS:
                    raise ConfigError(f"the query took more than {SECONDS} s; narrow it")
        finally:
            running.kill()
    if running.returncode:
        raise ConfigError(f"the query needs more than {MEMORY}; narrow it")
    data: JsonObject = json.loads(printed)
    if "error" in data:
        raise ConfigError(str(data["error"]))
    return data


def _asked(path: str, sql: str) -> JsonObject:
    import duckdb

    with duckdb.connect(path, read_only=True, config=_CONFIG) as database:
        try:
            statements = duckdb.extract_statements(sql)
            if len(statements) != 1 or statements[0].type != duckdb.StatementType.SELECT:
                return {"error": "give one SELECT; nothing can be changed here"}
            result = database.execute(statements[0])
            columns = [{"name": c[0], "kind": str(c[1])} for c in result.description]
            rows = [[_plain(value) for value in row] for row in result.fetchmany(ROWS + 1)]
        except duckdb.OutOfMemoryException:
            return {"error": f"the query needs more than {MEMORY}; narrow it"}
        except duckdb.Error as error:
            return {"error": " ".join(str(error).partition("\n\nLINE")[0].split())}
    if sum(len(value) for row in rows for value in row if isinstance(value, str)) > CHARACTERS:
        return {"error": f"an answer holds up to {CHARACTERS:,} characters of text"}
    return {"columns": columns, "rows": rows[:ROWS], "more": len(rows) > ROWS}


def _plain(value: object) -> object:
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
    resource.setrlimit(resource.RLIMIT_CPU, (2 * SECONDS, 2 * SECONDS))
    asked = json.load(sys.stdin)
    json.dump(_asked(asked["path"], asked["sql"]), sys.stdout)
