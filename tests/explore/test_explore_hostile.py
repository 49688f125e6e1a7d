"""An OUT that somebody else made, and requests that nobody's page sends: no name, text or link in
it becomes SQL, a path or an error without a sentence."""

import ast
import datetime
import hashlib
import json
import shutil
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any
from urllib.parse import quote

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st
from starlette.testclient import TestClient

from tests.explore.test_explore import client_of
from tests.helpers import fuzz, tiers
from tests.laws.test_import_rules import modules, name_of
from uttermill.flows.explore import loading, responses
from uttermill.flows.explore.corpus import Corpus
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.storage import queries

INJECTED = (
    'a") AS a FROM (SELECT 0 AS item, * FROM ledger) l LEFT JOIN utterances u ON u.id = l.utterance'
    "); COPY (SELECT 1) TO 'CANARY'; --"
)
NAMES = (
    *(INJECTED, 'a"b', "a'b", "'; COPY (SELECT 1) TO 'CANARY'; --", '"; DROP TABLE items_1; --'),
    *("", " ", '"', '""', "'", "\\", "\0", "a\0b", "x" * 10_000, "a.b", "a\nb", "?", "$1", "*"),
    *("select", "order", "end", "item", "searched", "spoken", "part", "filename", "rowid"),
    *("ITEM", "Text", "ID", "OUTCOME", "Seconds", "seconds_2", "a", "A", "a_1", "é", "É"),
    *("😀", "\u202egpj", "COLUMNS(*)", "__proto__", "constructor", "<script>alert(1)</script>"),
    *("javascript:alert(1)", "file_row_number", "wer", "cer", "--", "/*", "a,b", "-seconds"),
)


@pytest.fixture
def out(out: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Whatever writes a relative path, writes into `tmp_path`."""
    monkeypatch.chdir(tmp_path)
    return out


def rewritten(path: Path, columns: dict[str, Any]) -> None:
    """Put columns with these names into a Parquet file, in place of those of the same name; a
    version's dataset.json learns the new size and hash."""
    table = pq.read_table(path)
    old = [n for n in table.column_names if n not in columns]
    arrays = [table[name] for name in old] + [*columns.values()]
    path.unlink()
    pq.write_table(pa.Table.from_arrays(arrays, names=[*old, *columns]), path)
    data, about = path.read_bytes(), path.with_name("dataset.json")
    if not about.exists():
        return
    dataset = json.loads(about.read_text())
    named = {"bytes": len(data), "sha256": hashlib.sha256(data).hexdigest()}
    dataset["files"][path.name] |= named
    about.unlink()
    about.write_text(json.dumps(dataset))


def table_of(out: Path, name: str) -> Path:
    return out / "datasets" / "v0001" / f"{name}.parquet"


def asked_of(name: str) -> Iterator[str]:
    """Each question of the page that can be about a column."""
    column = quote(name, safe="")
    for way in ("", "-"):
        yield f"rows?sort={way}{column}&limit=3"
        yield f"recordings?sort={way}{column}"
    yield f"rows?in.{column}=a&in.{column}="
    yield f"rows?min.{column}=0&max.{column}=5"
    yield f"histogram?column={column}&by={column}"
    yield f"histogram?column={column}"
    yield f"scatter?x={column}&y=duration"
    yield f"table?what={column}"
    yield f"table?what=words&in.{column}=a"
    limits = json.dumps([{"column": name, "side": "min", "value": 1}])
    yield f"kept?limits={quote(limits)}"
    for kind in responses.KINDS:
        yield f"export/{kind}?sort={column}&in.{column}=a"


EVERY = (
    *("about", "rows", "rows?q=a&spans=1", "recordings", "histogram?column=seconds", "clip/2"),
    *("table?what=dataset", "table?what=characters", "compare?against=1", "audio/2", "kept"),
    *("export/jsonl", "export/parquet", "export/zip", "reviews"),
)


def answered(client: TestClient, path: str) -> int:
    """The status of an answer, which is good or says in a sentence why it is not."""
    answer = client.get(f"/api/{path}")
    if answer.status_code != 200:
        assert answer.status_code in (400, 404), f"{path[:200]}: {answer.text}"
        assert answer.json()["error"]
    return answer.status_code


@pytest.mark.nightly
def test_names_of_columns_are_no_sql(out: Path, tmp_path: Path) -> None:
    """All at once, of texts and of numbers."""
    texts, numbers = pa.array(["a"] * 5), pa.array([1.0, 2.0, 3.0, None, 5.0])
    columns = {name: texts if at % 2 else numbers for at, name in enumerate(NAMES)}
    rewritten(table_of(out, "utterances"), columns)
    before = sorted(tmp_path.iterdir())
    client = client_of(out, tmp_path / "home")
    assert [answered(client, path) for path in EVERY] == [200] * len(EVERY)
    about = client.get("/api/about").json()
    shown = [column["name"] for column in about["columns"]]
    assert len(shown) == len(set(shown))
    assert {INJECTED, "a\0b", "x" * 10_000, "item_2", "Text_1", "É", "select"} <= set(shown)
    for name in NAMES:
        for path in asked_of(name):
            answered(client, path)
    [row] = client.get("/api/rows?limit=1&in.outcome=packaged").json()["rows"]
    assert row["item"] == 2, "it is ours"
    assert "item_2" in row
    assert client.get("/api/rows?q=number").json()["total"] == 4, "`searched` is ours"
    exported = pq.read_table(pa.BufferReader(client.get("/api/export/parquet").content))
    assert set(exported.column_names) == set(shown)
    assert client.get("/api/rows").json()["total"] == 8
    assert sorted({*tmp_path.iterdir()} - {tmp_path / "home"}) == before, "nothing was written"


@pytest.mark.full
@pytest.mark.parametrize(
    "where", ["ledger", *map(tiers.nightly, ("transcribe", "shard", "resample"))]
)
def test_names_in_other_tables_are_no_sql(out: Path, tmp_path: Path, where: str) -> None:
    if where == "ledger":
        path = table_of(out, "ledger")
    else:
        path = next((out / "manifests").glob(f"{where}/shard-000000/*.parquet"))
    rows = pq.read_metadata(path).num_rows
    rewritten(path, {name: pa.array([1.0] * rows) for name in NAMES})
    client = client_of(out, tmp_path / "home")
    assert [answered(client, asked) for asked in EVERY] == [200] * len(EVERY)
    assert client.get("/api/rows").json()["total"] == 8
    assert not (tmp_path / "CANARY").exists()


VALUES: dict[str, pa.Array] = {
    "struct": pa.array([{"a": {"b": [1, None]}}] * 5),
    "list": pa.array([[["x"], None]] * 5),
    "map": pa.array([[("k", 1)]] * 5, pa.map_(pa.string(), pa.int64())),
    "binary": pa.array([b"\xff\x00<script>"] * 5),
    "decimal": pa.array([Decimal("1e30")] * 5, pa.decimal256(60, 2)),
    "timestamp": pa.array([datetime.datetime(9999, 1, 1)] * 5),
    "date": pa.array([datetime.date(1, 1, 1)] * 5),
    "duration": pa.array([2**62] * 5, pa.duration("us")),
    "bool": pa.array([True, None, False, True, True]),
    "uint64": pa.array([2**64 - 1] * 5, pa.uint64()),
    "float": pa.array([float("nan"), float("inf"), -float("inf"), None, 1e308]),
    "null": pa.nulls(5),
    "categories": pa.array(["a"] * 5).dictionary_encode(),
    "text": pa.array(["</script>", "\0", "\u202e", None, "9" * 400]),
}


@pytest.mark.parametrize(
    "kind", tiers.few(VALUES, "struct", "binary", "timestamp", "float", "null", "text")
)
@pytest.mark.nightly
def test_values_of_any_type(out: Path, tmp_path: Path, kind: str) -> None:
    """In place of each column that uttermill writes."""
    path = table_of(out, "utterances")
    ours = [n for n in pq.read_schema(path).names if n != "id"]
    rewritten(path, dict.fromkeys(ours, VALUES[kind]))
    instead = client_of(out, tmp_path / "home")
    assert instead.get("/api/rows").json()["total"] == 8
    for asked in (*EVERY, *asked_of("text"), *asked_of("words")):
        answered(instead, asked)


def test_a_ledger_without_a_column(out: Path, tmp_path: Path) -> None:
    path = table_of(out, "ledger")
    table = pq.read_table(path).drop_columns(["start"])
    path.unlink()
    pq.write_table(table, path)
    answer = client_of(out, tmp_path / "home").get("/api/rows")
    assert answer.status_code == 400
    assert "ledger.parquet lacks the column start" in answer.json()["error"]


def test_two_rows_of_one_id(out: Path, tmp_path: Path) -> None:
    path = table_of(out, "utterances")
    table = pq.read_table(path)
    path.unlink()
    pq.write_table(pa.concat_tables([table, table]), path)
    answer = client_of(out, tmp_path / "home").get("/api/rows")
    assert answer.status_code == 400
    assert "an id occurs twice" in answer.json()["error"]


def test_long_texts_are_cut_and_say_so(out: Path, tmp_path: Path) -> None:
    path = table_of(out, "utterances")
    values = ["ß" * (loading.LONGEST + 1), "s" * loading.LONGEST, *["short"] * 3]
    rewritten(path, {"text": pa.array(values)})
    client = client_of(out, tmp_path / "home")
    rows = client.get("/api/rows?in.outcome=packaged").json()["rows"]
    texts = {row["text"] for row in rows}
    cut = "ß" * loading.LONGEST + " … (65537 characters)"
    assert texts == {cut, "s" * loading.LONGEST, "short"}


def test_an_answer_has_a_size(reader: TestClient, monkeypatch: pytest.MonkeyPatch) -> None:
    assert answered(reader, "rows") == 200
    monkeypatch.setattr("uttermill.flows.explore.corpus.ANSWER", 500)
    assert "ask for fewer rows" in reader.get("/api/rows").json()["error"]
    assert answered(reader, "rows?limit=1") == 200


def test_ids_are_no_paths_in_a_zip(out: Path, tmp_path: Path) -> None:
    names = ["../../x", "/etc/x", "a\\b", "x" * 70_000, ".."]
    rewritten(table_of(out, "utterances"), {"id": pa.array(names)})
    ledger = pq.read_table(table_of(out, "ledger"))["utterance"].to_pylist()
    rewritten(table_of(out, "ledger"), {"utterance": pa.array([*ledger[:2], *names, None])})
    client = client_of(out, tmp_path / "home")
    (tmp_path / "all.zip").write_bytes(client.get("/api/export/zip").content)
    import zipfile

    inside = zipfile.ZipFile(tmp_path / "all.zip").namelist()
    assert [n for n in inside if n.startswith("item-")] == [f"item-{n}.wav" for n in range(2, 7)]
    assert not [name for name in inside if "/" in name or "\\" in name or ".." in name]


@pytest.mark.parametrize("shard", ["../../../../other.tar", "wenet/train/link.tar"])
def test_a_tar_elsewhere_is_not_heard(
    out: Path, tmp_path: Path, shard: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Named by a path that leads out, or by a link; without it, the clip comes from OUT."""
    [tar] = (out / "datasets/v0001/wenet/train").glob("*.tar")
    other = tmp_path / "other.tar"
    other.write_bytes(tar.read_bytes())
    (tar.parent / "link.tar").symlink_to(other)
    client = client_of(out, tmp_path / "home")
    before = [client.get(f"/api/audio/{n}").content for n in range(2, 7)]
    rewritten(table_of(out, "utterances"), {"shard": pa.array([shard] * 5)})
    client = client_of(out, tmp_path / "home2")
    opened, is_file = list[Path](), Path.is_file

    def asked(self: Path) -> bool:
        opened.append(self)
        return is_file(self)

    monkeypatch.setattr(Path, "is_file", asked)
    assert [client.get(f"/api/audio/{n}").content for n in range(2, 7)] == before
    assert other not in opened


# What DuckDB may do


def refusals(out: Path, tmp: Path) -> list[str]:
    secret = tmp / "secret"
    secret.write_text("secret")
    link = out / "manifests" / "link"
    link.symlink_to(secret)
    return [
        f"SELECT * FROM read_text('{secret}')",
        f"SELECT * FROM read_text('{link}')",
        f"SELECT * FROM read_text('{out}/datasets/../../secret')",
        f"SELECT * FROM read_csv('{out}/runs/../../secret')",
        f"SELECT * FROM glob('{tmp}/*')",
        f"COPY (SELECT 1) TO '{tmp}/CANARY'",
        f"COPY (SELECT 1) TO '{out}/CANARY'",
        f"ATTACH '{tmp}/other.db'",
        f"EXPORT DATABASE '{tmp}/all'",
        "SELECT * FROM read_csv('http://127.0.0.1:9/x.csv')",
        *("INSTALL httpfs", "LOAD httpfs", "INSTALL x FROM community"),
        *("SET enable_external_access = true", "SET allowed_directories = ['/']"),
        *("SET lock_configuration = false", "RESET lock_configuration", "SET memory_limit = '9GB'"),
        *("SET autoload_known_extensions = true", "SET temp_directory = '/'", "PRAGMA threads=1"),
        "SELECT * FROM visible",
    ]


def test_duckdb_reaches_no_other_file(out: Path, tmp_path: Path) -> None:
    visible = pa.table({"a": [1]})
    (tmp_path / "home").mkdir()
    corpus = Corpus(out, tmp_path / "home")
    for statement in refusals(out, tmp_path):
        with pytest.raises(duckdb.Error):
            corpus.rows(statement)
    assert not (tmp_path / "CANARY").exists()
    assert corpus.rows("SELECT 1 AS a") == visible.to_pylist(), "a control: it does answer"
    assert corpus.rows("SELECT count(*) AS n FROM glob(?)", [f"{out}/datasets/*/*.parquet"])
    corpus.close()


@pytest.mark.parametrize("what", ["ledger", "utterances", "transcribe"])
def test_links_below_a_version_are_refused(out: Path, tmp_path: Path, what: str) -> None:
    path = {
        "ledger": table_of(out, "ledger"),
        "utterances": table_of(out, "utterances"),
        "transcribe": out / "manifests" / "transcribe" / "shard-000000",
    }[what]
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    answer = client_of(out, tmp_path / "home").get("/api/rows")
    assert answer.status_code == 400
    assert f"{path} is a link or not a file" in answer.json()["error"]


@pytest.mark.parametrize("what", ["manifests", ""])
def test_a_larger_disk_may_hold_out_or_its_folders(out: Path, tmp_path: Path, what: str) -> None:
    path = out / what
    path.rename(tmp_path / "elsewhere")
    path.symlink_to(tmp_path / "elsewhere")
    assert answered(client_of(out, tmp_path / "home"), "rows") == 200


def test_a_path_that_is_no_utf8(out: Path, tmp_path: Path) -> None:
    other = tmp_path / "\udcff"
    out.rename(other)
    (tmp_path / "home").mkdir()
    with pytest.raises(ConfigError, match="UTF-8"):
        Corpus(other, tmp_path / "home")


@pytest.mark.parametrize("name", ["it's a\"b; --", "a [b] *?"])
def test_a_path_with_quotes_and_wildcards(out: Path, tmp_path: Path, name: str) -> None:
    out.rename(tmp_path / name)
    client = client_of(tmp_path / name, tmp_path / "home")
    assert client.get("/api/rows").json()["total"] == 8
    assert answered(client, "audio/2") == 200


# Rules over the code


def quoted_by_hand(source: str) -> list[str]:
    """F-strings that put quotes around a value."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.JoinedStr):
            parts = [str(p.value) if isinstance(p, ast.Constant) else None for p in node.values]
            for before, value, after in zip(parts, parts[1:], [*parts[2:], ""], strict=False):
                if value is None and before and before[-1] in "'\"":
                    found += [ast.unparse(node)] * bool(after and after[0] == before[-1])
    return found


def test_quotes_around_values_are_written_in_one_file() -> None:
    found = {name_of(p): quoted_by_hand(p.read_text()) for p in modules("flows/explore")}
    assert {name: texts for name, texts in found.items() if texts} == {}


@pytest.mark.parametrize("source", ["f'SELECT \"{name}\" FROM t'", "f\"TO '{path}' (x)\""])
def test_control_quotes_by_hand_are_seen(source: str) -> None:
    assert quoted_by_hand(source)
    assert not quoted_by_hand("f'SELECT {name} FROM \"t\"'")


def duckdb_uses(source: str) -> set[str]:
    """What a file uses of DuckDB's module, beside its errors and the type of a connection."""
    tree = ast.parse(source)
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute)
        and isinstance(node.value, ast.Name)
        and node.value.id == "duckdb"
    } | {
        alias.name
        for node in ast.walk(tree)
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[0] == "duckdb"
        for alias in node.names
    }
    return {u for u in used if not u.endswith(("Error", "Exception", "DuckDBPyConnection"))}


@pytest.mark.full
def test_duckdb_is_opened_in_one_file_and_in_the_sandbox() -> None:
    """A person's SQL gets less than `queries.connect` gives: a copy that is only read, no folder,
    no temporary files; and its process starts without pyarrow."""
    found = {
        name_of(path): uses
        for folder in ("flows", "tasks")
        for path in modules(folder)
        if "duckdb" in (source := path.read_text()) and (uses := duckdb_uses(source))
    }
    assert found == {
        "tasks/storage/queries.py": {"connect"},
        "flows/explore/sandbox.py": {"connect", "extract_statements", "StatementType"},
    }
    assert duckdb_uses("from duckdb import connect as c") == {"connect"}


@pytest.mark.full
@given(st.text())
@fuzz.cases(40)
def test_an_identifier_and_a_literal_are_what_they_say(text: str) -> None:
    with duckdb.connect() as database:
        found = database.execute(
            f"SELECT {queries.literal(text)} AS {queries.identifier(text or 'a')}"
        )
        assert found.fetchall() == [(text,)]
        assert found.description[0][0] == (text or "a")


# Requests

NUMBERS = (
    *("1e300", "-1e300", "1e999", "nan", "inf", "-inf", "9" * 400, "9" * 5000, "-1", "0", "1.5"),
    *("²", "٣", "0x10", "1_0", "", " ", "\0", "null", "18446744073709551616"),
)
#: One of each kind: beyond a float, none, beyond an int, below zero, a fraction, no ASCII, no text.
SOME_NUMBERS = ("1e999", "nan", "9" * 5000, "-1", "1.5", "²", "", "\0")
ASKED = (
    *("rows?limit={}", "rows?offset={}", "rows?version={}", "rows?min.seconds={}", "clip/{}"),
    *("rows?max.seconds={}&sort=text", "rows?spans={}", "rows?regex={}&q=a", "rows?sort={}"),
    *("recordings?limit={}", "recordings?offset={}", "compare?against={}", "audio/{}"),
    *("compare?against=1&offset={}", "audio/2?start={}&end=1", "audio/2?start=0&end={}"),
    *(
        "audio/2?around={}",
        "audio/2?explain={}&start=0",
        "export/jsonl?item={}",
        "reviews?since={}",
    ),
    *("export/zip?item={}", "export/parquet?limit={}&item={}", "histogram?column={}", "export/{}"),
    *("histogram?column=seconds&min.seconds={}", "scatter?x=seconds&y={}", "kept?limits={}"),
    *("table?what={}", "table?what=words&rare={}", "timeline?recording={}", "speech?recording={}"),
    *('kept?limits=[{{"column":"seconds","side":"min","value":{}}}]', "about?version={}"),
    *("rows?q={}&regex=1", "rows?in.seconds={}", "compare?against=1&change={}"),
)


@pytest.mark.full
@pytest.mark.parametrize("numbers", [SOME_NUMBERS, tiers.nightly(NUMBERS)], ids=["some", "all"])
@pytest.mark.parametrize("path", ASKED)
def test_numbers_that_are_none(reader: TestClient, path: str, numbers: tuple[str, ...]) -> None:
    for number in numbers:
        answered(reader, path.format(quote(number), quote(number)))
    assert answered(reader, "rows") == 200


@pytest.fixture(scope="module")
def decider(whole: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[TestClient, Path]:
    """For decisions that may add up, and the OUT that stores them."""
    home = tmp_path_factory.mktemp("decider")
    shutil.copytree(whole, home / "out", symlinks=True)
    return client_of(home / "out", home / "home"), home / "out"


DEEP = "[" * 100_000
BODIES: dict[str, Any] = {
    "deep list": DEEP + "]" * 100_000,
    "deep, unfinished": DEEP,
    "deep object": '{"a":' * 100_000 + "1" + "}" * 100_000,
    "deep value": '{"decisions":' + "[" * 5000 + "]" * 5000 + "}",
    "long number": '{"version":' + "9" * 5000 + "}",
    "large number": '{"version":' + "9" * 400 + "}",
    "infinite": '{"since":1e999}',
    "nan": '{"since":NaN}',
    "not utf-8": b'{"a":"\xff"}',
    "utf-16": '{"version":1,"decisions":[]}'.encode("utf-16"),
    "nul": b"\0",
    "nothing": b"",
    "half a pair": '{"decisions":[{"id":"x","decision":"retext","text":"\\ud800"}]}',
    "half a pair in a selection": '{"selection":"q=\\udfff","decision":"keep"}',
    "half a pair in a key": '{"\\ud800":1}',
    "large items": '{"items":[' + "9" * 30 + '],"decision":"keep"}',
    "false items": '{"items":[true],"decision":"keep"}',
    "items of text": '{"items":"abc","decision":"keep"}',
    "objects": '{"items":[1],"decision":{"a":1},"note":[1]}',
    "a selection of numbers": '{"selection":{"a":1},"decision":5}',
    "bad selection": '{"selection":"min.seconds=nan&in.\'=1","decision":"keep"}',
    "large since": '{"decisions":[],"since":' + "9" * 300 + "}",
    "twice": '{"version":1,"version":"x","decisions":[]}',
}


def posted(client: TestClient, path: str, content: Any) -> Any:
    headers = {"content-type": "application/json"}
    return client.post(f"/api/{path}", content=content, headers=headers)


@pytest.mark.parametrize(("body", "path"), tiers.covering(BODIES, ["reviews", "reviews/selection"]))
def test_bodies_that_are_none(decider: tuple[TestClient, Path], path: str, body: str) -> None:
    client, out = decider
    before = decision_log.stored(out)
    answer = posted(client, path, BODIES[body])
    assert answer.status_code in (200, 400), answer.text
    assert answer.status_code == 200 or answer.json()["error"]
    assert decision_log.stored(out) == before or answer.status_code == 200


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner),
    max_leaves=8,
)
KEYS = ("version", "decisions", "items", "selection", "decision", "text", "note", "who", "since")


@given(bodies=st.lists(st.dictionaries(st.sampled_from(KEYS), JSON, max_size=3), max_size=20))
@fuzz.cases(4)
def test_any_body(decider: tuple[TestClient, Path], bodies: list[dict[str, Any]]) -> None:
    client, _ = decider
    for body in bodies:
        for path in ("reviews", "reviews/selection"):
            answer = posted(client, path, json.dumps(body))
            assert answer.status_code in (200, 400, 404), (body, answer.text)
            assert answer.status_code == 200 or answer.json()["error"]


def test_a_body_has_a_size(reader: TestClient) -> None:
    answer = posted(reader, "reviews", b" " * 2_000_001)
    assert answer.status_code == 413
    assert "2,000,000 bytes" in answer.json()["error"]


# Halves of surrogate pairs: what Python makes of a file's name that is no UTF-8


@given(st.text(st.characters(exclude_categories=[])))
@fuzz.cases(100)
def test_any_text_comes_back_from_an_answer(text: str) -> None:
    assert json.loads(responses.written({"a": [text]})) == {"a": [text]}


def test_text_is_sent_as_it_is() -> None:
    assert responses.written("é😀") == '"é😀"'.encode()


def test_half_of_a_pair_is_stored_nowhere(client: TestClient, out: Path) -> None:
    found = client.get("/api/rows").json()["rows"][0]["id"]
    body = {"decisions": [{"id": found, "decision": "retext", "text": "a\ud800b"}]}
    answer = posted(client, "reviews", json.dumps(body))
    assert answer.status_code == 400
    assert "half of a surrogate pair" in answer.json()["error"]
    with pytest.raises(ConfigError, match="line 3: text has half of a surrogate pair"):
        decision_log.checked({"id": found, "decision": "retext", "text": "\udc00"}, "", "line 3")
    whole = {"id": found, "decision": "retext", "text": "\U0001f600"}
    assert client.post("/api/reviews", json={"decisions": [whole]}).status_code == 200
    assert [each.text for each in decision_log.read(decision_log.stored(out))] == ["😀"]
