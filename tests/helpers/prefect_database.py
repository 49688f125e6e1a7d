"""A database of Prefect's that is made and empty, for the homes of servers that tests start.

To make one takes a server seven seconds. The first server of a test run does; all others begin with
a copy, also in the other processes that share the tests.
"""

import fcntl
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

NAME = "prefect.db"


def shared(factory: pytest.TempPathFactory) -> Path:
    """Where it lies, or will lie, for all processes of this test run."""
    own = factory.getbasetemp()
    return (own.parent if own.name.startswith("popen-") else own) / NAME


@contextmanager
def turn(made: Path) -> Iterator[None]:
    """One process at a time: the first makes it, the others wait for it."""
    with made.with_suffix(".lock").open("w") as gate:
        fcntl.flock(gate, fcntl.LOCK_EX)
        yield


def save(home: Path, made: Path) -> None:
    """What a server made in its home, before it recorded anything."""
    half = made.with_suffix(".half")
    with closing(sqlite3.connect(home / NAME)) as own, closing(sqlite3.connect(half)) as copy:
        own.backup(copy)
    half.rename(made)


def give(made: Path, home: Path) -> None:
    home.mkdir(parents=True, exist_ok=True)
    shutil.copyfile(made, home / NAME)
