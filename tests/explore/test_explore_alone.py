"""Datasets without an OUT around them: a copied version, Hugging Face's Parquet, lhotse's cuts."""

from __future__ import annotations

import gzip
import json
import shutil
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from starlette.testclient import TestClient

from tests.explore.test_explore import HOST, TOKEN, get, out, whole
from tests.helpers import hostile
from uttermill.flows.cli import main
from uttermill.flows.explore import app
from uttermill.flows.explore.looking import Looking, alone
from uttermill.tasks.storage import versions

__all__ = ["out", "whole"]  # fixtures


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
