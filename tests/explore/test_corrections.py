"""Corrections in a table: `review export OUT --csv`, and `review import OUT x.csv`."""

import csv
import gzip
import io
import json
import shutil
from collections import Counter
from collections.abc import Iterator, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.explore.test_explore import HOST, TOKEN, get
from tests.helpers import corpus, hostile, tampered
from tests.helpers import explored as bench
from uttermill.flows import cli
from uttermill.flows.cli import main, reviews
from uttermill.flows.explore import app, charts, query
from uttermill.flows.explore.corpus import Corpus, Items
from uttermill.flows.explore.loading import Column
from uttermill.flows.explore.looking import Looking, alone
from uttermill.flows.run import ledger_items
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.storage import versions

NOW = "2026-01-01T00:00:00Z"


def decided(out: Path) -> dict[str, str]:
    entries = decision_log.last(decision_log.read(decision_log.stored(out)))
    return {key: entry.decision for key, entry in entries.items()}


@pytest.mark.parametrize("form", ["{}", "\ufeff{}", "sep=;\n{}", "semicolons", "tabs"])
def test_a_table_of_a_spreadsheet(form: str) -> None:
    lines = 'id,decision,text,outcome\na,drop,,packaged\nb,,"say, ""this""",dropped\nc,,,packaged\n'
    if form in ("semicolons", "tabs", "sep=;\n{}"):
        separator = "\t" if form == "tabs" else ";"
        cells = csv.reader(io.StringIO(lines))
        target = io.StringIO()
        csv.writer(target, delimiter=separator).writerows(cells)
        lines = target.getvalue()
    text = (form if "{}" in form else "{}").format(lines)
    assert reviews.is_table(text)
    found = [(one.id, one.decision, one.text) for one in reviews.read_table(text, "x.csv", NOW)]
    assert found == [("a", "drop", None), ("b", "retext", 'say, "this"')]


@pytest.mark.parametrize("said", ['=HYPERLINK("http://x","y")', "+1", "-1", "@a", "'tis", "a=b"])
def test_no_text_is_a_formula(said: str) -> None:
    """Nor is it another one when it comes back."""
    file = io.StringIO(newline="")
    ledger_items.write_csv(
        [{"id": "a", "reference": said, "text": said}], file, str, reviews.COLUMNS
    )
    [row] = csv.DictReader(io.StringIO(file.getvalue(), newline=""))
    assert row["reference"] == ("'" if said[0] in "=+-@" else "") + said
    [decision] = reviews.read_table(file.getvalue(), "x.csv", NOW)
    assert decision.text == said


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,decision\na,drop\n", "x.csv is not a list of decisions: JSON lines, or a table"),
        ("id,decision\na,drop\nb,maybe\n", "x.csv, line 3: decision is 'maybe'; use keep"),
    ],
)
def test_a_wrong_table_says_where(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        reviews.read_table(text, "x.csv", NOW)


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "just words\n", "[1]\n"])
def test_a_file_without_decisions_says_what_it_should_be(text: str) -> None:
    expected = (
        r"JSON lines, or a table with the columns id and decision or text \(`uttermill review"
    )
    with pytest.raises(ConfigError, match=expected):
        reviews._decisions(text, "x.csv")


def test_clips_are_corrected_in_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus.make(tmp_path / "in", 4)
    job = corpus.job(tmp_path, filter=corpus.filters(min=0.5))  # r00 has 0.4 s
    corpus.run(job)
    (job.out / "runs").mkdir()
    assert cli.main(["review", "export", str(job.out), "--csv"]) == 0
    exported = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(exported)))
    assert tuple(rows[0]) == reviews.COLUMNS
    assert len(rows) == 4
    assert [Path(row["source_path"]).is_file() for row in rows] == [True] * 4
    short, *others = rows
    assert (short["outcome"], short["reason"], short["limit"]) == ("dropped", "too_short", "0.5")
    assert float(short["value"]) == corpus.seconds_of(0)
    assert {row["outcome"] for row in others} == {"packaged"}
    assert all(row["heard"] for row in others)

    short["decision"] = "keep"
    others[0]["text"] = "what was said; indeed"
    table = tmp_path / "x.csv"
    with table.open("w", newline="", encoding="utf-8-sig") as file:
        file.write("sep=;\n")
        writer = csv.DictWriter(file, reviews.COLUMNS, delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    assert cli.main(["review", "import", str(job.out), str(table)]) == 0
    assert "2 decisions stored (1 keep, 1 retext)" in capsys.readouterr().out
    table.write_text(table.read_text("utf-8-sig"), "utf-16")
    assert decided(job.out) == {short["id"]: "keep", others[0]["id"]: "retext"}
    assert cli.main(["review", "import", str(job.out), str(table)]) == 0
    assert len(list(decision_log.read(decision_log.stored(job.out)))) == 2  # none is stored twice
    published, _ = corpus.run(job)
    assert published.summary["utterances"]["packaged"] == 4

    table.write_text("id,decision\nnobody,drop\n")
    assert cli.main(["review", "import", str(job.out), str(table)]) == 2
    assert "names no clip of the newest version" in capsys.readouterr().err
    assert len(decided(job.out)) == 2


def test_the_given_text_of_a_dropped_clip_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who judges a high error rate compares what was given with what was heard."""
    corpus.make(tmp_path / "in", 2)
    (tmp_path / "in/r00.txt").write_text("nothing like it")
    (tmp_path / "settings.yaml").write_text(
        f"sources: [{{kind: folder, path: {tmp_path}/in, name: c}}]\n"
        "shard: {settle_seconds: 0}\n"
        "transcribe: {backend: {use: fake}, verdicts: [{use: error_rate, max_wer: 0}]}\n"
    )
    tampered.run(tmp_path / "out")
    given, heard = reviews.table(tmp_path / "out")
    assert (given["reason"], given["measure"]) == ("high_error_rate", "wer")
    assert given["reference"] == "nothing like it"
    assert given["heard"]
    assert (heard["outcome"], heard["reference"]) == ("packaged", None)
    capsys.readouterr()
    assert cli.main(["ledger", str(tmp_path / "out"), "--items", "--csv"]) == 0
    first, _ = csv.DictReader(io.StringIO(capsys.readouterr().out))
    expected = {**given, "threshold": given["limit"]}
    assert {name: first[name] for name in expected} == {
        name: "" if value is None else str(value) for name, value in expected.items()
    }


def test_each_rule_is_of_the_stage_that_the_ledger_names(tmp_path: Path) -> None:
    """The limit of an enhanced clip's score counted as a filter's, so its measure had no name."""
    job = corpus.job(tmp_path, enhance=Plugin.model_validate({"use": "gtcrn", "min_ovrl": 2.5}))
    measures = reviews._measures(job)
    assert measures["enhance", "low_dnsmos_ovrl"] == ["dnsmos_ovrl_enhanced"]
    assert ("filter", "low_dnsmos_ovrl") not in measures


# Items of the explorer are numbered by place; its counts of words against a plain count.


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
    for place in (made, tmp_path / "shuffled"):
        home = tmp_path / f"home-{len(found)}"
        home.mkdir()
        corpus = Corpus(place, home)
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

    def rows(sql: str, values: Sequence[Any]) -> list[dict[str, Any]]:
        result = database.execute(sql, list(values))
        names = [column[0] for column in result.description]
        return [dict(zip(names, row, strict=True)) for row in result.fetchall()]

    corpus: Any = SimpleNamespace(rows=rows)
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


# Datasets without an OUT around them: a copied version, Hugging Face's Parquet, lhotse's cuts.


def looking(folder: Path, tmp: Path) -> TestClient:
    home = tmp / "home"
    home.mkdir()
    made = app.make(app.Explorer(Looking(folder, home), None, TOKEN, home))
    return TestClient(made, base_url=f"{HOST}/{TOKEN}", raise_server_exceptions=False)


def test_a_version_alone(out: Path, tmp_path: Path) -> None:
    newest = versions.newest(out)
    assert newest is not None
    shutil.copytree(newest, tmp_path / "copied")
    shutil.rmtree(out)
    described = tmp_path / "copied" / "dataset.json"
    described.write_text(json.dumps({**json.loads(described.read_text()), "version": 7}))
    client = looking(tmp_path / "copied", tmp_path)
    about = get(client, "/api/about")
    assert (about["version"], about["versions"], about["read_only"]) == (7, [7], True)
    rows = get(client, "/api/rows")["rows"]
    assert len(rows) == 8
    kept = next(row for row in rows if row["outcome"] == "packaged")
    assert client.get(f"/api/audio/{kept['item']}").content[:4] == b"RIFF"
    decision = {"decisions": [{"id": kept["id"], "decision": "drop", "who": "a"}]}
    refused = client.post("/api/reviews", json=decision)
    assert refused.status_code == 400
    assert "only looking" in refused.json()["error"]
    assert not (tmp_path / "copied" / "reviews.jsonl").exists()
    assert get(client, "/api/sql", sql="SELECT count(*) FROM utterances")["rows"] == [[5]]


def hugging_face(folder: Path) -> None:
    cells = [{"bytes": hostile.wav(n), "path": f"{n}.wav"} for n in range(3)]
    cells[2]["bytes"] = b"no audio"
    (folder / "data").mkdir(parents=True)
    table = pa.table({"audio": cells, "text": ["zero", "one", "two"]})
    pq.write_table(table, folder / "data" / "train-00000.parquet")


def lhotse(folder: Path) -> None:
    folder.mkdir()
    lines = []
    for number in range(2):
        (folder / f"{number}.wav").write_bytes(hostile.wav(number))
        recording = {
            "id": str(number), "sampling_rate": 8000, "num_samples": 4000, "duration": 0.5,
            "channel_ids": [0],
            "sources": [{"type": "file", "channels": [0], "source": str(folder / f"{number}.wav")}],
        }  # fmt: skip
        said = {"id": f"s{number}", "recording_id": str(number), "start": 0.0, "duration": 0.4,
                "channel": 0, "text": ["zero", "one"][number]}  # fmt: skip
        cut = {"id": f"c{number}", "start": 0.1, "duration": 0.4, "channel": 0,
               "supervisions": [said], "recording": recording, "type": "MonoCut"}  # fmt: skip
        lines.append(json.dumps(cut) + "\n")
    (folder / "cuts.jsonl.gz").write_bytes(gzip.compress("".join(lines).encode()))


@pytest.mark.parametrize(("make", "kept"), [(hugging_face, 2), (lhotse, 2)])
def test_a_dataset_of_others(tmp_path: Path, make: object, kept: int) -> None:
    folder = tmp_path / "theirs"
    assert callable(make)
    make(folder)
    before = sorted(folder.rglob("*"))
    client = looking(folder, tmp_path)
    assert get(client, "/api/about")["utterances"]["packaged"] == kept
    rows = {row["text"]: row for row in get(client, "/api/rows")["rows"]}
    assert rows["zero"]["outcome"] == rows["one"]["outcome"] == "packaged"
    assert client.get(f"/api/audio/{rows['one']['item']}").content[:4] == b"RIFF"
    assert get(client, f"/api/clip/{rows['one']['item']}")["row"]["text"] == "one"
    if make is hugging_face:
        assert rows["two"]["outcome"] == "failed"
    assert sorted(folder.rglob("*")) == before


def test_what_a_folder_is(out: Path, tmp_path: Path) -> None:
    newest = versions.newest(out)
    assert newest is not None
    hugging_face(tmp_path / "theirs")
    (tmp_path / "empty").mkdir()
    assert [alone(place) for place in (newest, tmp_path / "theirs")] == [True, True]
    assert [alone(place) for place in (out, tmp_path / "empty", tmp_path / "no")] == [False] * 3


def test_a_version_in_its_out_stands_for_both(out: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shown: list[tuple[Path, int | None]] = []
    monkeypatch.setattr(app, "explore", lambda place, number, *_: shown.append((place, number)))
    for place in (out, out / "datasets" / "v0001", out / "datasets" / "latest"):
        main(["explore", str(place)])
    assert shown == [(out, None), (out, 1), (out, 1)]
