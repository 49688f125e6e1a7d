"""Tables of a corpus in DuckDB: bounded memory, and errors in one sentence."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from tests.helpers import own_mounts
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.publish.choosing.components import Names, Nodes
from uttermill.tasks.storage import queries

ROWS = 300_000


def names(memory: str, scratch: Path) -> list[int]:
    """The order of names, and the number of the first of them, with this much memory."""
    chance = np.random.default_rng(0)
    codes = chance.integers(0, 2**62, ROWS)
    with Names(["id"], memory, scratch) as table:
        for low in range(0, ROWS, 50_000):
            some = codes[low : low + 50_000].tolist()
            table.add({"id": pa.array([f"{code:064x}" for code in some])})
        rows = table.ordered("id")
        assert (codes[rows] == np.sort(codes)).all()
        return [*rows[:9].tolist(), *Nodes(table, ["id"], rows).of_row[0, :9].tolist()]


@pytest.mark.nightly
def test_more_names_than_memory_lie_in_the_folder_and_nothing_stays_there(tmp_path: Path) -> None:
    whole = names("1GB", tmp_path)
    assert names("30MB", tmp_path) == whole
    assert whole[9:] == [*range(9)]
    assert [*tmp_path.iterdir()] == []


def test_too_little_memory_is_told_with_the_setting(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"neither into 1MB of memory nor .*; raise package.memory"):
        names("1MB", tmp_path)
    assert [*tmp_path.iterdir()] == []


@pytest.mark.full
def test_a_disk_that_is_really_full_is_told_until_it_has_room(tmp_path: Path) -> None:
    done = own_mounts.told("tests.helpers.full_tables", str(tmp_path))
    for sentence in done["told"]:
        assert re.match(rf"tables .* into {tmp_path} \(.*offload data.*\); .*make room", sentence)
    codes = np.random.default_rng(0).permutation(300_000)
    assert (len(done["told"]), done["order"]) == (3, np.argsort(codes)[:9].tolist())


def test_a_full_disk_is_told_with_its_place(tmp_path: Path) -> None:
    import duckdb

    told = pytest.raises(RunError, match=rf"{tmp_path} \(.*No space.*\); .*make room")
    with told, queries.tables(scratch=tmp_path):
        raise duckdb.IOException("IO Error: No space left on device\nstack")
    assert [*tmp_path.iterdir()] == []


def test_a_database_of_tables_reaches_no_file(tmp_path: Path) -> None:
    import duckdb

    (tmp_path / "secret.csv").write_text("a\n1\n")
    with queries.tables(scratch=tmp_path) as database:
        for sql in (f"SELECT * FROM '{tmp_path}/secret.csv'", "SET memory_limit = '9GB'"):
            with pytest.raises(duckdb.Error, match=r"disabled|locked"):
                database.execute(sql)


def test_half_of_an_amount_of_memory() -> None:
    halves = [queries.divided(memory, 2) for memory in ("1GB", "1.5 GiB", "500MB", "2469136MB")]
    assert halves == ["0.5GB", "0.75GiB", "250MB", "1234568MB"]
