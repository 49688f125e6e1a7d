"""The explorer's server: who may ask, what it answers, and what bad input does."""

import io
import json
import re
import shutil
import signal
import socket
import subprocess
import sys
import threading
import zipfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile as sf
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route
from starlette.testclient import TestClient

from tests.helpers import corpus
from tests.insight.test_report import EVIL, job_of, recorded
from uttermill.flows import cli
from uttermill.flows.explore import app
from uttermill.flows.explore.corpus import Corpus, Ended
from uttermill.flows.explore.responses import Sent
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.storage import versions

TOKEN = "a-token"
HOST = "http://127.0.0.1:8800"


def make(tmp: Path) -> Path:
    """An OUT of eight recordings: five kept, two too short, one broken."""
    corpus.make(tmp / "in", 8)
    (tmp / "in" / "r07.wav").write_bytes(b"this is no audio")
    corpus.listed(tmp / "in", 8, tmp / "list.jsonl", r04=EVIL)
    job = job_of(tmp, filter=corpus.filters({"use": "loudness"}, min=0.7))
    recorded(job)
    return job.out


def client_of(out: Path, home: Path) -> TestClient:
    home.mkdir(exist_ok=True)
    made = app.make(app.Explorer(Corpus(out, home), None, TOKEN, home))
    return TestClient(made, base_url=f"{HOST}/{TOKEN}", raise_server_exceptions=False)


def get(client: TestClient, path: str, status: int = 200, **params: Any) -> dict[str, Any]:
    answer = client.get(path, params=params)
    assert answer.status_code == status, answer.text
    found: dict[str, Any] = answer.json()
    return found


def stems(answer: dict[str, Any]) -> list[str]:
    return [Path(row["recording"]).stem for row in answer["rows"]]


# Who may ask


@pytest.mark.parametrize(
    "path", ["/", "/wrong/", "/?token=wrong", "/api/about", "/wrong/api/rows", "/style.css"]
)
def test_without_the_token(reader: TestClient, path: str) -> None:
    stranger = TestClient(reader.app, base_url=HOST)
    assert stranger.get(path).status_code == 403
    assert stranger.post("/api/reviews", json={}).status_code == 403


@pytest.mark.parametrize("path", ["/?token=a-token", "/a-token/", "/api/about?token=a-token"])
def test_with_the_token(reader: TestClient, path: str) -> None:
    answer = TestClient(reader.app, base_url=HOST).get(path)
    assert answer.status_code == 200
    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
    assert answer.headers["referrer-policy"] == "no-referrer"


@pytest.mark.parametrize(
    ("host", "status"),
    [("evil.example", 403), ("127.0.0.1.evil.example:80", 403), ("localhost:9", 200),
     ("[::1]:1234", 200), ("127.0.0.1", 200), ("", 403)],
)  # fmt: skip
def test_only_loopback_names(reader: TestClient, host: str, status: int) -> None:
    assert reader.get("/api/about", headers={"host": host}).status_code == status


@pytest.mark.parametrize(
    "path",
    ["/../app.py", "/%2e%2e/app.py", "/..%2fapp.py", "/web/../app.py", "/%2fetc%2fpasswd",
     "/index.html%00.js", "/nothing.js", "/__init__.py"],
)  # fmt: skip
def test_only_its_own_files(reader: TestClient, path: str) -> None:
    assert reader.get(path).status_code in (403, 404)


def test_files_of_the_page(reader: TestClient) -> None:
    page = reader.get("/").text
    assert '<base href="/a-token/">' in page
    assert "{{" not in page
    sizes = {each.name: len(reader.get(f"/{each.name}").content) for each in app.WEB.iterdir()}
    assert all(sizes.values())
    assert sum(sizes.values()) < 1_000_000
    assert reader.get("/main.js").headers["content-type"].startswith("text/javascript")


# What it answers


def test_kept_dropped_and_failed_alike(reader: TestClient) -> None:
    answer = get(reader, "/api/rows")
    assert answer["total"] == 8
    assert {row["outcome"] for row in answer["rows"]} == {"packaged", "dropped", "failed"}
    by_name = dict(zip(stems(answer), answer["rows"], strict=True))
    assert by_name["r04"]["text"].startswith("</script>"), "texts come as they are, as JSON"
    assert by_name["r00"]["loudness"] is not None, "measures of what was dropped, too"
    assert by_name["r07"]["reason"] == "unreadable"


def test_sorting_and_paging(reader: TestClient) -> None:
    longest = get(reader, "/api/rows", sort="-seconds", limit=2)
    assert stems(longest) == ["r06", "r05"]
    assert longest["total"] == 8
    assert stems(get(reader, "/api/rows", sort="-seconds", limit=2, offset=2)) == ["r04", "r03"]
    assert stems(get(reader, "/api/rows", sort="wer", limit=1)) != ["r07"], "nulls come last"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ({"q": "NUMBER 3"}, ["r03"]),
        ({"q": "r0[23]", "regex": "1"}, ["r02", "r03"]),
        ({"q": "onerror=alert(1)"}, ["r04"]),
        ({"q": "100%_"}, []),
        ({"in.outcome": "failed"}, ["r07"]),
        ({"in.reason": ["too_short", "unreadable"]}, ["r00", "r01", "r07"]),
        ({"in.split": ""}, ["r00", "r01", "r07"]),
        ({"min.duration": "0.5", "max.duration": "0.9"}, ["r01", "r02"]),
        ({"in.reason": "'; DROP TABLE items_1; --"}, []),
    ],
)
def test_searching_and_filtering(
    reader: TestClient, asked: dict[str, Any], found: list[str]
) -> None:
    assert stems(get(reader, "/api/rows", **asked)) == found


@pytest.mark.full
@pytest.mark.parametrize(
    ("path", "asked", "said"),
    [
        ("rows", {"sort": "nothing"}, "no column 'nothing'"),
        ("rows", {"sort": 'seconds"; DROP TABLE items_1'}, "no column"),
        ("rows", {"in.a b": "1"}, "no column 'a b'"),
        ("rows", {"min.duration": "many"}, "give a number"),
        ("rows", {"limit": "x"}, "give a whole number"),
        ("rows", {"q": "(", "regex": "1"}, "refused"),
        ("rows", {"version": "9"}, "no version 9"),
        ("histogram", {"column": "text"}, ""),
        ("histogram", {"by": "seconds"}, "use outcome"),
        ("scatter", {"x": "duration"}, "no column ''"),
        ("kept", {"limits": "{}x"}, "limits is not"),
        ("table", {"what": "nothing"}, "use words"),
        ("compare", {}, "against=N"),
        ("clip/99", {}, "no item 99"),
        ("audio/99", {}, "no item 99"),
        ("audio/2", {"start": "1", "end": "0"}, "start must lie before end"),
        ("timeline", {"recording": "x"}, "no recording"),
        ("export/exe", {}, "is not jsonl"),
        ("nothing", {}, "Not Found"),
    ],
)
def test_bad_questions(reader: TestClient, path: str, asked: dict[str, str], said: str) -> None:
    answer = reader.get(f"/api/{path}", params=asked)
    assert answer.status_code in (400, 404)
    assert said in answer.json()["error"]
    assert get(reader, "/api/rows")["total"] == 8


def test_recordings(reader: TestClient) -> None:
    answer = get(reader, "/api/recordings", sort="-seconds")
    assert answer["total"] == 8
    assert answer["rows"][0]["packaged"] == answer["rows"][0]["seconds"] == 1.6
    assert get(reader, "/api/recordings", sort="kept")["rows"][0]["kept"] == 0


def test_histogram_has_every_clip(reader: TestClient) -> None:
    bars = get(reader, "/api/histogram", column="duration", by="outcome")
    assert sum(each["count"] for each in bars["counts"]) == bars["n"] == 7
    assert {each["name"] for each in bars["counts"]} == {"packaged", "dropped"}
    assert get(reader, "/api/histogram", column="wer", q="no such words")["counts"] == []


def test_limits_have_their_settings(reader: TestClient) -> None:
    limits = get(reader, "/api/about")["limits"]
    known = {(each["column"], each["side"]): each for each in limits}
    assert known["duration", "min"]["key"] == "filter.filters.duration.min"
    assert known["duration", "min"]["value"] == 0.7
    assert known["duration", "min"]["reason"] == "too_short"
    assert any(each["key"].startswith("transcribe.verdicts.") for each in limits)


def test_hours_kept_are_those_of_what_if(reader: TestClient) -> None:
    limit = json.dumps([{"column": "duration", "side": "min", "value": 0.5}])
    kept = get(reader, "/api/kept", limits=limit)
    assert (kept["now"], kept["then"]) == (5, 6)
    assert kept["then_hours"] == pytest.approx(6.6 / 3600)
    stricter = json.dumps([{"column": "duration", "side": "min", "value": 1.3}])
    assert get(reader, "/api/kept", limits=stricter)["then"] == 2


def test_scatter_and_tables(reader: TestClient) -> None:
    assert len(get(reader, "/api/scatter", x="duration", y="loudness")["points"]) == 7
    words = get(reader, "/api/table", what="words")
    assert words["rows"][0]["count"] == 4
    rare = get(reader, "/api/table", what="characters", rare="1")
    assert rare["rows"][0]["count"] == 1
    [dataset] = get(reader, "/api/table", what="dataset")["rows"]
    assert dataset["items"] == 8
    assert dataset["kept_hours"] == pytest.approx(6.0 / 3600)


def test_a_clip(reader: TestClient) -> None:
    item = next(
        r["item"] for r in get(reader, "/api/rows")["rows"] if r["recording"].endswith("r02.wav")
    )
    found = get(reader, f"/api/clip/{item}")
    assert found["reference"] == "reference number 2"
    assert found["heard"]
    assert [each["item"] for each in found["around"]] == [item]
    line = get(reader, "/api/timeline", recording=found["row"]["recording"])
    assert line["end"] == pytest.approx(0.8)
    speech = get(reader, "/api/speech", recording=found["row"]["recording"])
    assert len(speech["values"]) == 25  # 0.8 s in windows of 32 ms
    assert all(0 <= value <= 1 for value in speech["values"])
    get(reader, "/api/speech", 404, recording="c/nothing.wav")


@pytest.mark.parametrize("name", ["r00", "r02", "r06"])
def test_audio_of_kept_and_dropped(reader: TestClient, name: str) -> None:
    row = next(r for r in get(reader, "/api/rows")["rows"] if name in r["recording"])
    answer = reader.get(f"/api/audio/{row['item']}")
    samples, rate = sf.read(io.BytesIO(answer.content))
    assert len(samples) / rate == pytest.approx(row["seconds"], abs=1e-3)
    part = reader.get(f"/api/audio/{row['item']}", headers={"range": "bytes=44-99"})
    assert part.status_code == 206
    assert part.content == answer.content[44:100]
    assert part.headers["content-range"] == f"bytes 44-99/{len(answer.content)}"


@pytest.mark.parametrize(
    ("asked", "found"),
    [
        ("bytes=0-3", (b"0123", 206)), ("bytes=7-", (b"789", 206)), ("bytes=-2", (b"89", 206)),
        ("bytes=5-99", (b"56789", 206)), ("bytes=10-", (b"", 416)), (None, (b"0123456789", 200)),
    ],
)  # fmt: skip
def test_ranges(asked: str | None, found: tuple[bytes, int], tmp_path: Path) -> None:
    def answer(request: Request) -> Response:
        return Sent(tmp_path, lambda file: file.write(b"0123456789"), "text/plain")

    client = TestClient(Starlette(routes=[Route("/", answer)]))
    response = client.get("/", headers={"range": asked} if asked else {})
    assert (response.content, response.status_code) == found
    assert [*tmp_path.iterdir()] == []


def test_exports(reader: TestClient) -> None:
    lines = reader.get("/api/export/jsonl", params={"in.outcome": "packaged"}).text.splitlines()
    assert [json.loads(line)["outcome"] for line in lines] == ["packaged"] * 5
    table = pq.read_table(pa.BufferReader(reader.get("/api/export/parquet").content))
    assert table.num_rows == 8
    whole = zipfile.ZipFile(io.BytesIO(reader.get("/api/export/zip").content))
    names = whole.namelist()
    assert sum(name.endswith(".wav") for name in names) == 7
    rows = [json.loads(line) for line in whole.read("items.jsonl").splitlines()]
    assert next(row for row in rows if "audio_missing" in row)["reason"] == "unreadable"
    assert all("/" not in name and ".." not in name for name in names)


# Decisions


def ids(client: TestClient) -> list[str]:
    return [row["id"] for row in get(client, "/api/rows")["rows"] if row["id"]]


def test_decisions_are_stored(client: TestClient, out: Path) -> None:
    first, second = ids(client)[:2]
    sent = {"decisions": [{"id": first, "decision": "keep", "who": "ada", "note": "fine"}]}
    answer = client.post("/api/reviews", json=sent)
    assert answer.status_code == 200
    assert answer.json()["next"] == 1
    client.post(
        "/api/reviews", json={"decisions": [{"id": second, "decision": "retext", "text": EVIL}]}
    )
    newer = get(client, "/api/reviews", since=1)
    assert [each["text"] for each in newer["decisions"]] == [EVIL]
    stored = decision_log.read(decision_log.stored(out))
    assert [(each.id, each.decision) for each in stored] == [(first, "keep"), (second, "retext")]
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", each.when) for each in stored)


def test_one_decision_on_a_selection(client: TestClient, out: Path) -> None:
    body = {"selection": "in.reason=too_short", "decision": "keep", "who": "ada"}
    assert client.post("/api/reviews/selection", json=body).json()["stored"] == 2
    picked = {"items": [2], "decision": "drop"}
    answer = client.post("/api/reviews/selection", json=picked)
    assert answer.status_code == 400, "items have other numbers in the next version"
    assert "version=N" in answer.json()["error"]
    answer = client.post("/api/reviews/selection", json={**picked, "version": 1})
    assert answer.json()["stored"] == 1
    assert len(decision_log.last(decision_log.read(decision_log.stored(out)))) == 3


def test_a_selection_of_clips_without_a_value_is_not_everything(
    client: TestClient, out: Path
) -> None:
    without: dict[str, Any] = {"in.value": "", "in.outcome": "packaged"}
    assert get(client, "/api/rows", **without)["total"] == 5
    for text, clips in (("in.value=&in.outcome=packaged", 5), ("in.outcome=", 0)):
        body = {"selection": text, "decision": "drop"}
        assert client.post("/api/reviews/selection", json=body).json()["stored"] == clips


def test_bad_decisions_store_nothing(client: TestClient, out: Path) -> None:
    bad: list[tuple[Any, str]] = [
        ({"decisions": [{"id": "nobody", "decision": "keep"}]}, "no utterance 'nobody'"),
        ({"decisions": [{"id": "nobody", "decision": "maybe"}]}, "maybe"),
        ({"decisions": {}}, "list"),
        ([], "one JSON object"),
        ({"decisions": [], "version": "x"}, "whole number"),
    ]
    for sent, said in bad:
        answer = client.post("/api/reviews", json=sent)
        assert answer.status_code == 400
        assert said in answer.json()["error"]
    headers = {"content-type": "application/json"}
    assert client.post("/api/reviews", content="{", headers=headers).status_code == 400
    assert client.post("/api/reviews", content="a=b").status_code == 400
    assert decision_log.stored(out) == b""


def test_boundaries_beyond_the_recording_are_refused(client: TestClient, out: Path) -> None:
    last = next(row for row in get(client, "/api/rows")["rows"] if row["outcome"] == "packaged")
    for beyond in (99.0, 0.01, 0.001):
        sent = {"id": last["id"], "decision": "recut", "start": 0.1, "end": last["end"] + beyond}
        answer = client.post("/api/reviews", json={"decisions": [sent]})
        assert answer.status_code == 400
        assert answer.json()["error"] == (
            f"the recording ends at {last['end']:.3f} s; end the clip there, or before"
        )
    assert decision_log.stored(out) == b""
    within = {**sent, "end": round(last["end"], 3)}
    assert client.post("/api/reviews", json={"decisions": [within]}).status_code == 200


# Bad input


def test_a_vanished_source(client: TestClient, out: Path, whole: Path) -> None:
    """Kept clips are heard from the version; of a dropped one the sentence says what is gone."""
    moved = whole.parent / "in-moved"
    (whole.parent / "in").rename(moved)
    try:
        rows = get(client, "/api/rows")["rows"]
        kept = next(r["item"] for r in rows if r["outcome"] == "packaged")
        dropped = next(r["item"] for r in rows if r["outcome"] == "dropped")
        assert client.get(f"/api/audio/{kept}").status_code == 200
        assert "its source cannot be" in get(client, f"/api/audio/{dropped}", 404)["error"]
    finally:
        moved.rename(whole.parent / "in")


def test_a_version_without_audio(out: Path, tmp_path: Path) -> None:
    newest = versions.newest(out)
    assert newest is not None
    shutil.rmtree(newest / "wenet")
    shutil.rmtree(out / "audio")
    client = client_of(out, tmp_path / "home")
    kept = next(r["item"] for r in get(client, "/api/rows")["rows"] if r["outcome"] == "packaged")
    assert client.get(f"/api/audio/{kept}").status_code == 200, "its source is there"


def test_only_the_version(out: Path, tmp_path: Path) -> None:
    """Without checkpoints and runs, the tables and the tars still tell what they hold."""
    for name in ("manifests", "audio", "runs"):
        shutil.rmtree(out / name)
    client = client_of(out, tmp_path / "home")
    rows = get(client, "/api/rows")["rows"]
    assert len(rows) == 8
    assert get(client, "/api/about")["limits"] == []
    kept = next(r["item"] for r in rows if r["outcome"] == "packaged")
    dropped = next(r["item"] for r in rows if r["outcome"] == "dropped")
    assert client.get(f"/api/audio/{kept}").status_code == 200
    assert get(client, f"/api/clip/{kept}")["reference"]
    assert "unknown" in get(client, f"/api/audio/{dropped}", 404)["error"]


def test_a_version_that_vanishes(client: TestClient, out: Path) -> None:
    newest = versions.newest(out)
    assert newest is not None
    shutil.rmtree(newest)
    assert "no dataset version" in get(client, "/api/rows", 400)["error"]


def test_tables_in_parts(out: Path, tmp_path: Path) -> None:
    """A large version's tables are folders of parts under the same name."""
    newest = versions.newest(out)
    assert newest is not None
    for name in ("ledger", "utterances"):
        path = newest / f"{name}.parquet"
        table = pq.read_table(path)
        path.unlink()
        path.mkdir()
        for at in range(0, table.num_rows, 3):
            pq.write_table(table.slice(at, 3), path / f"part-{at:06d}.parquet")
    client = client_of(out, tmp_path / "home")
    assert get(client, "/api/rows")["total"] == 8
    kept = next(r["item"] for r in get(client, "/api/rows")["rows"] if r["outcome"] == "packaged")
    assert client.get(f"/api/audio/{kept}").status_code == 200


@pytest.mark.full
def test_two_versions_side_by_side(out: Path, tmp_path: Path, whole: Path) -> None:
    job = job_of(whole.parent, filter=corpus.filters({"use": "loudness"}, min=0.9))
    corpus.run(replace(job, out=out))
    client = client_of(out, tmp_path / "home")
    assert get(client, "/api/about")["versions"] == [2, 1]
    answer = get(client, "/api/compare", against=1)
    assert {each["change"]: each["items"] for each in answer["counts"]} == {"went": 1}
    assert answer["rows"][0]["reason"] == "too_short"
    assert answer["totals"]["clips"][0] == answer["totals"]["clips"][1] + 1
    assert get(client, "/api/compare", version=1, against=2, change="came")["rows"]
    assert get(client, "/api/rows", version=1)["total"] == 8


# The command


@pytest.mark.parametrize(
    ("words", "said"),
    [(["--version", "7"], "there is no version 7"), (["--against", "7"], "there is no version 7"),
     (["--port", "PORT"], "port PORT cannot be used"), ([], "no dataset version yet")],
)  # fmt: skip
def test_what_cannot_be_shown(
    out: Path, words: list[str], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if not words:
        shutil.rmtree(out / "datasets")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert cli.main(["explore", str(out), *(w.replace("PORT", port) for w in words)]) == 2
    assert said.replace("PORT", port) in capsys.readouterr().err


@pytest.mark.nightly
def test_a_folder_that_is_no_out_costs_one_line(tmp_path: Path) -> None:
    """DuckDB's binding added fifty of its own."""
    command = [sys.executable, "-m", "uttermill.flows.cli", "explore", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == f"uttermill: {tmp_path} is not the OUT of a run: it holds no runs/\n"


@pytest.fixture
def served(out: Path) -> Iterator[dict[str, Any]]:
    """The real command on a copy of OUT; ended by its signal."""
    command = [sys.executable, "-m", "uttermill.flows.cli", "explore", str(out), "--json"]
    child = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    watchdog = threading.Timer(60, child.kill)
    watchdog.start()
    assert child.stdout is not None
    assert child.stderr is not None
    line = child.stdout.readline()
    assert line, child.stderr.read()
    yield json.loads(line)
    child.send_signal(signal.SIGTERM)
    child.wait(60)
    watchdog.cancel()
    assert child.returncode == 130
    assert child.stdout.read() == "", "one object, also when it ends"
    assert "leaked" not in child.stderr.read(), "DuckDB's binding finds nothing that is left"
    child.stdout.close()
    child.stderr.close()


@pytest.mark.nightly
def test_the_command_serves_and_ends(served: dict[str, Any]) -> None:
    import httpx

    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/\?token=[\w-]{20,}", served["url"])
    assert served["tunnel"].startswith(f"ssh -N -L {served['port']}:127.0.0.1:{served['port']} ")
    assert httpx.get(served["url"], timeout=60).status_code == 200
    assert httpx.get(f"http://127.0.0.1:{served['port']}/", timeout=60).status_code == 403


def test_nothing_reads_a_version_once_the_corpus_is_closed(out: Path, tmp_path: Path) -> None:
    corpus = Corpus(out, tmp_path)
    corpus.close()
    with pytest.raises(Ended), corpus.cursor():
        pass
