"""Tables with more than 2 GiB of text in a column, which are some 20 million rows of real ones.

Those here are made of a megabyte a row, and fail on `take` and `combine_chunks` of Arrow. Where
that takes long, the quick tier shows with a small limit that the rows go through `tables.take`.
"""

import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.helpers import corpus, own_mounts
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.formats import kaldi
from uttermill.tasks.insight.report.spans import Spans
from uttermill.tasks.publish.choosing import next_version
from uttermill.tasks.publish.choosing.components import Names, Nodes
from uttermill.tasks.publish.corpus import identities, limits
from uttermill.tasks.publish.corpus.identities import VOICES
from uttermill.tasks.publish.output_shards import format_shards
from uttermill.tasks.settings import Plugin
from uttermill.tasks.storage import queries, tables

ROWS, LONG, CHUNKS = 64, 1 << 20, 34  # 2.1 GiB in all


def texts(length: int = LONG) -> pa.Array:
    """Long ones that differ in their first bytes."""
    return pa.array([f"{n:04d}".ljust(length, "x") for n in range(ROWS)])


@pytest.fixture(scope="module")
def long() -> pa.ChunkedArray:
    """More bytes than an array holds; the chunks share theirs."""
    column = pa.chunked_array([texts()] * CHUNKS)
    assert column.nbytes > 2**31
    return column


@pytest.mark.parametrize("seed", range(5))
def test_rows_are_those_that_arrow_takes(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    rng = np.random.default_rng(seed)
    words = pa.list_(pa.struct([("word", pa.string()), ("start", pa.float64())]))
    names = [None if rng.random() < 0.1 else "x" * int(n) for n in rng.integers(0, 9, 200)]
    table = pa.table(
        {
            "text": pa.array(names, pa.string()),
            "data": pa.array([n and n.encode() for n in names], pa.binary()),
            "number": rng.integers(0, 9, 200),
            "word": pa.array([[{"word": n, "start": 1.0}] * 2 for n in names], words),
            "code": pa.array(names).dictionary_encode(),
        }
    ).replace_schema_metadata({"kept": "too"})
    table = pa.concat_tables([table.slice(0, 50), table.slice(50)])
    rows = rng.integers(0, 200, 300)
    whole_chunk = tables.take(table, rows)
    assert whole_chunk.equals(table.take(rows), check_metadata=True)
    assert all(column.num_chunks == 1 for column in whole_chunk.columns)
    monkeypatch.setattr(tables, "LIMIT", 500)
    found = tables.take(table, rows)
    assert found.equals(whole_chunk, check_metadata=True)
    assert found["text"].num_chunks > 2
    assert max(chunk.nbytes for chunk in found["text"].chunks) <= 500
    coded = tables.coded(table["text"])
    assert coded.equals(table["text"].combine_chunks().dictionary_encode())
    assert tables.take(table, rows[:0]).equals(table.slice(0, 0))


@pytest.mark.full
def test_places_in_recordings_of_long_names(long: pa.ChunkedArray) -> None:
    count = len(long)
    columns = {"split": pa.array(["train"] * count), "recording": long}
    columns |= {"start": np.arange(count)[::-1].astype(float), "end": np.ones(count)}
    columns |= {"id": pa.array([f"{n}" for n in range(count)])}
    places = format_shards.places([Plugin(use="emilia")], pa.table(columns).select)
    assert places is not None
    assert (places.to_numpy().reshape(CHUNKS, ROWS) == np.arange(CHUNKS)[::-1, None]).all()


@pytest.mark.full
def test_a_report_on_a_ledger_of_long_texts(long: pa.ChunkedArray, tmp_path: Path) -> None:
    """As it is before the first version: a table in memory."""
    count, job = len(long), corpus.job(tmp_path)
    table = pa.table({"utterance": [f"u{n}" for n in range(count)], "detail": long})
    spans = Spans(job, limits.outcomes_schema(job), [], [table])
    [last] = spans.rows([count - 1])
    assert (last["utterance"], (last["detail"] or "")[:4]) == (f"u{count - 1}", f"{ROWS - 1:04d}")


LENGTHS = [100, pytest.param(LONG, marks=pytest.mark.nightly)]


def limited(monkeypatch: pytest.MonkeyPatch, length: int) -> None:
    """A limit that a column of all these texts exceeds, but not the rows of one chunk."""
    if length < LONG:
        for module in (tables, queries):
            monkeypatch.setattr(module, "LIMIT", 2 * ROWS * length)


def in_pieces(column: pa.ChunkedArray) -> bool:
    """Whether it went through `tables.take`, with no array beyond the limit."""
    return column.num_chunks > 1 and all(c.nbytes <= tables.LIMIT for c in column.chunks)


@pytest.mark.parametrize("length", LENGTHS)
def test_rows_of_all_groups(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    limited(monkeypatch, length)

    class Group:
        count = ROWS

        def table(self, name: str, columns: Any) -> pa.Table:
            return pa.table({"recording": texts(length), "start": np.arange(ROWS)})

    numbers = np.random.default_rng(0).permutation(CHUNKS * ROWS).astype(np.int32)
    found = next_version.rows_of([Group()] * CHUNKS, numbers, ["recording", "start"])  # type: ignore[list-item]
    row = (numbers % ROWS).tolist()
    assert found["start"].to_pylist() == row
    assert pc.utf8_slice_codeunits(found["recording"], 0, 4).to_pylist() == [
        f"{n:04d}" for n in row
    ]
    assert found.schema.field("recording").type == pa.string()
    assert in_pieces(found["recording"])


@pytest.mark.parametrize("length", LENGTHS)
def test_order_of_kaldis_names(length: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """To compare equal names of a megabyte takes ten seconds."""
    limited(monkeypatch, length)
    names = pa.chunked_array([texts(length)] * CHUNKS)
    number = np.arange(len(names))
    found = kaldi.in_order(pa.table({"utterance": names, "number": number}))
    assert found["number"].to_pylist() == sorted(number.tolist(), key=lambda n: n % ROWS)
    assert found.schema.field("utterance").type == pa.string()
    assert in_pieces(found["utterance"])


@pytest.mark.parametrize("length", LENGTHS)
def test_speakers_of_recordings_with_long_names(
    length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    limited(monkeypatch, length)

    def parts() -> Iterator[pa.Table]:
        for part in range(CHUNKS):
            count = pa.array(np.full(ROWS, part, np.int32))
            content = pa.array([f"{n}" for n in range(ROWS)])
            seconds = pa.array(np.ones(ROWS))
            vectors = pa.array([np.eye(192)[n].astype("<f2").tobytes() for n in range(ROWS)])
            columns = [
                texts(length),
                count,
                content,
                seconds,
                vectors.cast(VOICES.field("vector").type),
            ]
            yield pa.table(columns, schema=VOICES)

    found = pa.concat_tables(identities.link(parts, list, 0.5, "r", refit=False))
    assert found["number"].to_pylist() == list(range(CHUNKS)) * ROWS
    assert found["content"].to_pylist() == [f"{n}" for n in range(ROWS) for _ in range(CHUNKS)]
    assert len(pc.unique(found["speaker"])) == ROWS
    assert in_pieces(found["recording"])


# Tables of a corpus in DuckDB: bounded memory, and errors in one sentence.


QUERY_ROWS = 300_000


def names(memory: str, scratch: Path) -> list[int]:
    """The order of names, and the number of the first of them, with this much memory."""
    chance = np.random.default_rng(0)
    codes = chance.integers(0, 2**62, QUERY_ROWS)
    with Names(["id"], memory, scratch) as table:
        for low in range(0, QUERY_ROWS, 50_000):
            some = codes[low : low + 50_000].tolist()
            table.add({"id": pa.array([f"{code:064x}" for code in some])})
        rows = table.ordered("id")
        assert (codes[rows] == np.sort(codes)).all()
        return [*rows[:9].tolist(), *Nodes(table, ["id"], rows).of_row[0, :9].tolist()]


@pytest.mark.nightly
def test_more_names_than_memory_lie_in_the_folder_and_nothing_stays_there(tmp_path: Path) -> None:
    whole = names("1GB", tmp_path)
    assert names("30MB", tmp_path) == names("30MB", tmp_path) == whole
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


def test_threads_never_share_a_database(tmp_path: Path) -> None:
    def numbered(number: int) -> list[Any]:
        with queries.tables(scratch=tmp_path) as database:
            database.execute(f"CREATE TABLE numbers AS SELECT {number} AS number")
            return database.sql("FROM numbers").fetchall()

    with ThreadPoolExecutor(8) as pool:
        assert [*pool.map(numbered, range(200))] == [[(number,)] for number in range(200)]


def test_amounts_of_memory() -> None:
    sizes = [queries.size_of(memory) for memory in ("1GB", "1.5 GiB", "500MB", "0.5 MiB")]
    assert sizes == [10**9, 3 * 2**29, 5 * 10**8, 2**19]


def test_a_database_gets_its_part_of_the_memory(tmp_path: Path) -> None:
    with queries.tables("1.5GiB", tmp_path, divisor=2) as database:
        [(limit,)] = database.sql("SELECT current_setting('memory_limit')").fetchall()
    assert limit == "768.0 MiB"
