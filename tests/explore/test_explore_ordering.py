"""Pages of the explorer against a plain sort, and its counts of words against a plain count."""

from __future__ import annotations

import math
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import explored as bench
from uttermill.flows.explore import query, selection
from uttermill.flows.explore.corpus import Corpus

NUMBERS = st.sampled_from([math.nan, -math.inf, math.inf, -1.0, 0.0, -0.0, 2.5, 7.0])


@given(
    st.lists(NUMBERS, max_size=40), st.sets(st.integers(0, 39)), st.booleans(),
    st.integers(0, 45), st.integers(0, 12),
)  # fmt: skip
def test_a_page_is_a_slice_of_the_sorted(
    values: list[float], chosen: set[int], down: bool, start: int, limit: int
) -> None:
    members = sorted(each for each in chosen if each < len(values))
    sign = -1 if down else 1
    want = sorted(members, key=lambda at: (math.isnan(values[at]), sign * values[at])
                  if not math.isnan(values[at]) else (True, 0.0))  # fmt: skip
    found = selection.page(np.array(members, np.int32), np.array(values), down, start, limit)
    assert found.tolist() == want[start : start + limit]


@given(st.lists(st.integers(-1, 3), max_size=30), st.booleans(), st.integers(0, 31))
def test_places_of_texts_below_zero_are_none(ranks: list[int], down: bool, start: int) -> None:
    sign = -1 if down else 1
    known = [at for at in range(len(ranks)) if ranks[at] >= 0]
    want = sorted(known, key=lambda at: sign * ranks[at]) + [
        at for at in range(len(ranks)) if ranks[at] < 0
    ]
    whole = np.arange(len(ranks), dtype=np.int32)
    found = selection.page(whole, np.array(ranks, np.int32), down, start, 7)
    assert found.tolist() == want[start : start + 7]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "out"
    bench.make(out, 700)
    return out


@pytest.mark.full
def test_every_column_sorts_as_duckdb_does(
    made: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before the order of texts is known, and after."""
    monkeypatch.setattr(Corpus, "_read_ahead", lambda self, items: None)
    corpus = Corpus(made, tmp_path)
    items = corpus.items()
    for name in items.columns:
        for sort in (name, f"-{name}"):
            for filters in ([], [("min.snr", "20")], [("q", "amber")]):
                asked = [*filters, ("sort", sort), ("limit", "30"), ("offset", "170")]
                chosen = query.choice(items.columns, asked)
                by = query.order(items.columns, sort)
                want = corpus.rows(
                    f"SELECT item FROM {items.name} WHERE {chosen.sql} ORDER BY {by} "
                    "LIMIT 30 OFFSET 170",
                    chosen.values,
                )
                answers = [query.rows(corpus, items, asked)]
                if items.columns[name].kind == "text":
                    assert items.selection.keys(name) is None
                    items.selection.rank(name)
                    answers.append(query.rows(corpus, items, asked))
                    items.selection._held.pop(("keys", name))
                for answer in answers:
                    assert [row["item"] for row in answer["rows"]] == [row["item"] for row in want]
    corpus.close()


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


@given(
    st.lists(st.none() | st.text(alphabet="ab é你😀 ", max_size=9), min_size=1, max_size=20),
    st.sets(st.integers(0, 19)), st.integers(1, 7),
)  # fmt: skip
def test_words_and_characters_of_a_selection(
    texts: list[str | None], chosen: set[int], batch: int
) -> None:
    import tempfile

    members = sorted(each for each in chosen if each < len(texts))
    words = Counter(w for at in members for w in (texts[at] or "").split(" ") if w)
    characters = Counter(c for word, n in words.items() for c in word * n)
    batches = [pa.array(texts[at : at + batch], pa.string()) for at in range(0, len(texts), batch)]
    with tempfile.TemporaryDirectory() as folder:
        made = selection.vocabulary_of(batches, Path(folder) / "words")
        for what, counts in (("words", words), ("characters", characters)):
            for rare in (False, True):
                found = made.counted(np.array(members, np.int32), what, rare)
                sign = 1 if rare else -1
                want = sorted(counts.items(), key=lambda each: (sign * each[1], each[0]))
                assert [(row["name"], row["count"]) for row in found["rows"]] == want
                assert found["whole"] == sum(counts.values())
                assert (found["kinds"], found["once"]) == (
                    len(counts), sum(n == 1 for n in counts.values()))  # fmt: skip
