"""Counts that follow the filters, audio by length and reason, and SQL that can do no harm."""

import time
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from tests.explore.test_explore import client_of, get
from tests.helpers import corpus, tiers
from tests.helpers import explored as bench
from tests.insight.test_report import job_of, recorded
from uttermill.flows.explore import charts, sandbox


def counts(facets: dict[str, Any], name: str) -> dict[str | None, int]:
    return {row["value"]: row["items"] for row in facets[name]}


def test_counts_of_facets_follow_the_filters(reader: TestClient) -> None:
    every = get(reader, "/api/facets")
    assert sum(counts(every, "outcome").values()) == 8
    assert "speaker" in every
    reason: dict[str, Any] = {"in.reason": "too_short"}
    short = get(reader, "/api/facets", **reason)
    assert counts(short, "outcome") == {"dropped": 2}
    assert counts(short, "reason") == counts(every, "reason"), "others may still be chosen"
    searched = get(reader, "/api/facets", q="NUMBER 3")
    assert sum(counts(searched, "reason").values()) == 1


def test_labels_of_sources_are_facets(tmp_path: Path) -> None:
    """Also of clips that are not packaged; a name of any letters is a column."""
    corpus.make(tmp_path / "in", 4)
    evil = "a\"'; <b>.x"
    said: list[dict[str, str]] = [{"emotion": "sad"}, {evil: "1"}, {"emotion": "sad"}, {}]
    lines = [{"wav": f"in/r0{n}.wav", "key": f"k{n}", "txt": f"words {n}", **each}
             for n, each in enumerate(said)]  # fmt: skip
    corpus.jsonl(tmp_path / "list.jsonl", lines)
    job = job_of(tmp_path, filter=corpus.filters(min=0.7))
    source = job.sources[0].model_copy(update={"labels": ("emotion", evil)})
    recorded(replace(job, sources=(source,)))
    client = client_of(job.out, tmp_path / "home")
    every = get(client, "/api/facets")
    packaged: dict[str, Any] = {"in.outcome": "packaged"}
    sad: dict[str, Any] = {"in.label.emotion": "sad"}
    kept = get(client, "/api/facets", **packaged)
    rows = get(client, "/api/rows", **sad)
    assert counts(every, "label.emotion") == {"sad": 2, None: 2}
    assert counts(every, f"label.{evil}") == {"1": 1, None: 3}
    assert sum(counts(kept, "label.emotion").values()) < 4, "counts follow the filters"
    assert [row["label.emotion"] for row in rows["rows"]] == ["sad", "sad"]
    assert {row["outcome"] for row in rows["rows"]} == {"packaged", "dropped"}
    assert {c["name"]: c["doc"] for c in get(client, "/api/about")["columns"]}[
        "label.emotion"
    ] == "the source's label `emotion`; null: none"
    chosen = get(client, "/api/facets", **sad)
    assert sum(counts(chosen, "outcome").values()) == 2
    assert counts(chosen, "label.emotion") == counts(every, "label.emotion")
    table = get(client, "/api/table", what="label.emotion")
    assert {row["name"]: row["items"] for row in table["rows"]} == {"sad": 2, None: 2}


def test_texts_that_several_clips_have(tmp_path: Path) -> None:
    """Near-equal ones are one, named by the most frequent; their clips are found by the texts."""
    advert = "this show is brought to you by the finest coffee of the whole wide town"
    evil = "\"'; <b>&amp;</b> | DROP TABLE items --"
    said = [
        advert,
        evil,
        advert,
        f"{advert} today",
        "something of its own",
        evil,
        "a" * 5000,
        "a" * 5000,
    ]
    corpus.make(tmp_path / "in", 8)
    lines = [{"wav": f"in/r0{n}.wav", "key": f"k{n}", "txt": text} for n, text in enumerate(said)]
    corpus.jsonl(tmp_path / "list.jsonl", lines)
    job = job_of(tmp_path, filter=corpus.filters(min=0.1))
    recorded(job)
    client = client_of(job.out, tmp_path / "home")
    answer = get(client, "/api/table", what="texts")
    assert answer["kinds"] == 3
    assert [(row["items"], row["different"]) for row in answer["rows"]] == [(3, 2), (2, 1), (2, 1)]
    assert answer["rows"][0]["name"] == advert
    assert {row["name"]: row["same"] for row in answer["rows"]}["a" * 5000] == [], "no address"
    for row in answer["rows"]:
        for_clips: dict[str, Any] = {f"in.{answer['column']}": row["same"]}
        clips = get(client, "/api/rows", **for_clips)
        if row["same"]:
            assert (clips["total"], clips["hours"]) == (row["items"], pytest.approx(row["hours"]))
    some: dict[str, Any] = {"in.normalised": advert}
    [only] = get(client, "/api/table", what="texts", **some)["rows"]
    assert (only["items"], only["different"]) == (2, 1), "counts follow the filters"
    assert get(client, "/api/table", what="texts", q="nobody said that")["rows"] == []


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version of 700 clips: durations of 0 to 9 s, 350 speakers, texts that are compared in
    another form, and with letters that Python and DuckDB lower differently."""
    out = tmp_path_factory.mktemp("tables") / "out"
    bench.make(out, 700)
    for path in (out / "datasets" / "v0001").glob("*.parquet"):
        table = pq.read_table(path)
        ids = table["utterance" if path.stem == "ledger" else "id"].to_pylist()
        numbers = [int(key.rpartition("-")[2], 16) for key in ids]
        values: dict[str, list[Any]] = {
            "dataset": ["d" if n < 600 else "e" for n in numbers],
            "duration": [float(n % 10) for n in numbers],
            "speaker": [f"s{n // 2:03}" for n in numbers],
            "text": [f"Don't ΟΔΟΣ İzmir Cafe\u0301 {n}" for n in numbers],
            "normalised": [f"dont {'rare' if n == 5 else 'usual'} {n}" for n in numbers],
            "words": [4] * len(numbers),
            "word_errors": [int(n >= 698) for n in numbers],
        }
        for at, field in enumerate(table.schema):
            if field.name in values:
                column = pa.array(values[field.name], field.type)
                table = table.set_column(at, field, column)
        pq.write_table(table, path)
    return out


@pytest.fixture(scope="module")
def many(made: Path, tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    return client_of(made, tmp_path_factory.mktemp("many"))


@pytest.mark.parametrize("text", ["ΟΔΟΣ", "İzmir", "Caf\u00e9", "Cafe\u0301", "CAFÉ", "don't οδοσ"])
def test_a_text_is_found_as_it_is_written(many: TestClient, text: str) -> None:
    """Also where small letters or accents have several forms."""
    packaged: dict[str, Any] = {"in.outcome": "packaged"}
    assert get(many, "/api/rows", q=text, **packaged)["total"] > 600


@pytest.mark.nightly
def test_a_counted_word_has_its_clips(many: TestClient) -> None:
    """Words are those of the compared text; parts of words and of paths do not count."""
    for kind, column in (("words", "word"), ("characters", "character")):
        for row in get(many, "/api/table", what=kind)["rows"][:20]:
            found = get(many, "/api/rows", **{column: row["name"]})["total"]
            assert found == row["count"] if kind == "words" else 0 < found <= row["count"]
    assert get(many, "/api/rows", word="rare")["total"] == 1
    assert get(many, "/api/rows", word="are")["total"] == 0


def test_counts_of_rare_values_follow_the_filters_too(many: TestClient) -> None:
    """The page shows the 100 most frequent values, of which a filter's hundred may be others."""
    shown = counts(get(many, "/api/facets"), "speaker")
    other: dict[str, Any] = {"in.dataset": "e"}
    within = counts(get(many, "/api/facets", **other), "speaker")
    rows = get(many, "/api/rows", limit=1000, **other)["rows"]
    true = Counter(row["speaker"] for row in rows if row["speaker"] in shown)
    assert len(shown) == 100
    assert within == true


def test_groups_are_sorted_before_they_are_cut(
    many: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(charts, "MOST_ROWS", 10)
    table = get(many, "/api/table", what="speaker", by="-wer")
    assert table["rows"][0]["name"] == "s349", "the only one with errors"
    assert len(table["rows"]) == 10
    assert table["kinds"] == len(
        {row["speaker"] for row in get(many, "/api/rows", limit=1000)["rows"]}
    )
    names = [row["name"] for row in get(many, "/api/table", what="speaker", by="name")["rows"]]
    assert names == sorted(names)
    get(many, "/api/table", 400, what="speaker", by="different")


def test_a_bar_has_the_clips_that_it_counts(many: TestClient) -> None:
    """Those at its right edge are the next bar's."""
    answer = get(many, "/api/histogram", column="duration")
    whole = Counter[int]()
    for entry in answer["counts"]:
        whole[entry["bin"]] += entry["count"]
    low, high = 0, answer["bins"] - 1
    assert sum(whole.values()) == answer["n"]
    for bin, count in whole.items():
        edges: dict[str, Any] = {}
        if bin > low:
            edges["min.duration"] = repr(answer["edges"][bin])
        if bin < high:
            edges["below.duration"] = repr(answer["edges"][bin + 1])
        rows = get(many, "/api/rows", limit=1000, **edges)["rows"]
        assert len([row for row in rows if row["duration"] is not None]) == count


def test_audio_by_length_and_reason(reader: TestClient) -> None:
    answer = get(reader, "/api/hours")
    rows = get(reader, "/api/rows")
    assert sum(each["hours"] for each in answer["counts"]) == pytest.approx(rows["hours"])
    assert sum(each["count"] for each in answer["counts"]) == rows["total"]
    assert answer["counts"][0]["name"] == "packaged"
    assert {each["name"] for each in answer["counts"]} > {"filter.too_short", "shard.unreadable"}
    assert max(each["bin"] for each in answer["counts"]) < len(answer["edges"])
    packaged: dict[str, Any] = {"in.outcome": "packaged"}
    kept = get(reader, "/api/hours", **packaged)
    assert {each["name"] for each in kept["counts"]} == {"packaged"}


def asked(client: TestClient, sql: str, status: int = 200) -> dict[str, Any]:
    return get(client, "/api/sql", status, sql=sql)


@pytest.mark.nightly
def test_a_select_on_the_version(reader: TestClient) -> None:
    found = asked(reader, "SELECT outcome, count(*) AS n FROM items GROUP BY 1 ORDER BY 1; -- all")
    assert [column["name"] for column in found["columns"]] == ["outcome", "n"]
    assert found["rows"] == [["dropped", 2], ["failed", 1], ["packaged", 5]]
    assert asked(reader, "SELECT count(*) FROM utterances")["rows"] == [[5]]
    assert asked(reader, "FROM ledger SELECT 'NaN'::DOUBLE, [1, 2] LIMIT 1")["rows"] == [
        [None, "[1, 2]"]
    ]


def test_an_answer_has_so_many_rows(reader: TestClient) -> None:
    found = asked(reader, "SELECT * FROM range(100000)")
    assert (len(found["rows"]), found["more"]) == (sandbox.ROWS, True)


@pytest.mark.parametrize(
    ("sql", "said"),
    [
        tiers.nightly("DROP TABLE items", "one SELECT"),
        tiers.full("SELECT 1; SELECT 2", "one SELECT"),
        tiers.nightly("INSERT INTO items SELECT * FROM items", "one SELECT"),
        ("COPY items TO '/tmp/uttermill-copy.csv'", "one SELECT"),
        tiers.full("ATTACH '/tmp/x.duckdb'", "one SELECT"),
        tiers.nightly("SET memory_limit = '99GB'", "one SELECT"),
        tiers.nightly("INSTALL httpfs", "one SELECT"),
        tiers.nightly("PRAGMA version", ""),
        tiers.nightly("", "one SELECT"),
        tiers.full("SELECT 1) UNION (SELECT 2", "Parser Error"),
        ("SELECT * FROM read_text('/etc/passwd')", "disabled"),
        tiers.full("SELECT * FROM glob('/etc/*')", "disabled"),
        tiers.nightly("SELECT * FROM '/etc/passwd'", "does not exist"),
        tiers.nightly("SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')", "disabled"),
        tiers.nightly("SELECT nothing FROM items", "nothing"),
        tiers.full("SELECT repeat('x', 3000000000)", "512MB"),
        tiers.full("SELECT 'x' || repeat('y', 30000)" + " " * sandbox.LONGEST, "characters"),
        ("SELECT repeat('y', 100000) FROM range(900)", "characters of text"),
    ],
)
def test_what_sql_may_not_do(reader: TestClient, sql: str, said: str) -> None:
    error = asked(reader, sql, 400)["error"]
    assert said in error
    assert "\\n" not in error, "it is one line, and no line break is spelled out"
    assert not Path("/tmp/uttermill-copy.csv").exists()


@pytest.mark.nightly
def test_a_query_ends(reader: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "SECONDS", 3)
    begun = time.monotonic()
    sql = "SELECT count(*) FROM range(1000000) a, range(1000000) b, range(1000) c"
    assert "took more than 3 s" in asked(reader, sql, 400)["error"]
    assert time.monotonic() - begun < 60
