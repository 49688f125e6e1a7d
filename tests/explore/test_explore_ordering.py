"""Items of the explorer are numbered by place; its counts of words against a plain count."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import explored as bench
from uttermill.flows.explore import charts, query
from uttermill.flows.explore.corpus import Corpus, Items
from uttermill.flows.explore.loading import Column


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "out"
    bench.make(out, 700)
    return out


def test_items_are_numbered_by_place(made: Path, tmp_path: Path) -> None:
    """Also where the ledger lies in another order."""
    import pyarrow.parquet as pq

    shuffled = tmp_path / "shuffled" / "datasets" / "v0001"
    shuffled.mkdir(parents=True)
    for each in (made / "datasets" / "v0001").iterdir():
        (shuffled / each.name).write_bytes(each.read_bytes())
    ledger = pq.read_table(shuffled / "ledger.parquet")
    order = np.random.default_rng(0).permutation(len(ledger))
    pq.write_table(ledger.take(pa.array(order)), shuffled / "ledger.parquet")
    found: list[list[dict[str, Any]]] = []
    for out in (made, tmp_path / "shuffled"):
        home = tmp_path / f"home-{len(found)}"
        home.mkdir()
        corpus = Corpus(out, home)
        found.append(corpus.rows(f"SELECT item, id FROM {corpus.items().name} ORDER BY item"))
        corpus.close()
    assert found[0] == found[1]
    assert [row["item"] for row in found[0]] == list(range(700))


@pytest.fixture(scope="module")
def database() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        yield connection


@settings(max_examples=30, deadline=None)
@given(
    texts=st.lists(st.none() | st.text("ab é\u0301你😀 ", max_size=9), min_size=1, max_size=20),
    picked=st.sets(st.integers(0, 19)),
)  # fmt: skip
def test_words_and_characters_of_a_selection(
    database: duckdb.DuckDBPyConnection, texts: list[str | None], picked: set[int]
) -> None:
    members = sorted(number for number in picked if number < len(texts))
    words = Counter(w for number in members for w in (texts[number] or "").split(" ") if w)
    characters = Counter(c for word, n in words.items() for c in word * n)
    table_of = pa.table({"item": range(len(texts)), "text": pa.array(texts, pa.string())})
    database.register("items", table_of)

    def once(sql: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        result = database.execute(sql, list(values))
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    corpus: Any = SimpleNamespace(once=once)
    items = Items(1, "items", {"text": Column("text")})
    chosen = query.Choice(f"item IN ({', '.join(map(str, members)) or 'NULL'})", ())
    for what, counts in (("words", words), ("characters", characters)):
        for rare in (False, True):
            table = charts.words(corpus, items, chosen, what, rare)
            sign = 1 if rare else -1
            want = sorted(counts.items(), key=lambda entry: (sign * entry[1], entry[0]))
            assert [(row["name"], row["count"]) for row in table["rows"]] == want
            assert table["whole"] == sum(counts.values())
            once_only = sum(n == 1 for n in counts.values())
            assert (table["kinds"], table["once"]) == (len(counts), once_only)
