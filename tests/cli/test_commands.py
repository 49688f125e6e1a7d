"""The commands on one real run: flow, Prefect server, two spawned workers, fake recogniser."""

import json
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.faults.command import still_open, task_runs
from tests.helpers import corpus
from tests.helpers.shared_server import Server
from uttermill.flows import cli
from uttermill.flows.server.server import using

pytestmark = [pytest.mark.quick, pytest.mark.cluster, pytest.mark.server]

SETTINGS = ("transcribe.backend.use=fake", "shard.hours=0.001")


@pytest.fixture(scope="module")
def flags(shared_cluster: dict[str, Any]) -> list[str]:
    there = [f"cluster.{key}={value}" for key, value in shared_cluster.items()]
    return [word for setting in (*SETTINGS, *there) for word in ("--set", setting)]


@dataclass
class Prepared:
    source: Path
    out: Path
    result: dict[str, Any]


def told(capsys: pytest.CaptureFixture[str], *words: str, code: int = 0) -> dict[str, Any]:
    """Run a command with --json; its exit code must be `code`; its object."""
    capsys.readouterr()
    assert cli.main([*words, "--json"]) == code
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1, "with --json there is one line on stdout"
    answer: dict[str, Any] = json.loads(lines[0])
    return answer


@pytest.fixture(scope="module")
def prepared(
    prefect_server: Server, flags: list[str], tmp_path_factory: pytest.TempPathFactory
) -> Prepared:
    home = tmp_path_factory.mktemp("commands")
    source = corpus.make(home / "in")
    (source / "page.wav").write_text("<html>not found</html>")
    (source / "notes.txt").write_text("no audio")
    with using(prefect_server.url):
        from uttermill.flows import settings
        from uttermill.flows.run import launch

        chosen = settings.read(None, [str(source)], str(home / "out"), flags[1::2])
        return Prepared(source, home / "out", launch.run(chosen))


def test_run_counts_everything(prepared: Prepared) -> None:
    result = prepared.result
    assert result["dataset"] == str(prepared.out / "datasets" / "v0001")
    assert result["version"] == 1
    assert result["recordings"] == {"in": 11, "failed": 1}
    assert result["utterances"] == {"in": 10, "packaged": 10, "dropped": 0, "failed": 0}
    assert result["reasons"] == {"shard.unreadable": {"items": 1, "seconds": 0.0}}
    assert result["ignored"] == {"extension": 1}
    expected = sum(corpus.seconds_of(n) for n in range(10))
    assert result["seconds"]["in"] == pytest.approx(expected, abs=1e-3)
    assert result["seconds"]["packaged"] == result["seconds"]["in"]
    stages = result["stages"]
    assert set(stages) == set(corpus.STAGES)
    assert stages["shard"]["items_computed"] == 11
    assert all(stages[s]["items_computed"] == 10 for s in corpus.STAGES[1:])
    assert stages["filter"]["shards_run"] > 1, "several shards went through two workers"


def test_ledger_adds_up(prepared: Prepared, capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, "ledger", str(prepared.out))
    for key in ("by_stage", "by_dataset", "by_language"):
        assert sum(row["hours"] for row in answer[key]) * 3600 == pytest.approx(
            answer["seconds"]["in"], abs=1e-5
        )
    assert answer["meanings"] == {"unreadable": "no decoder opens it"}


def test_the_ledger_of_a_run_that_died_before_it_had_listed_its_sources(
    prepared: Prepared, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    settings = min((prepared.out / "runs").glob("*/settings.json"))
    alone = tmp_path / "runs" / settings.parent.name
    alone.mkdir(parents=True)
    shutil.copy(settings, alone)
    assert told(capsys, "ledger", str(tmp_path))["seconds"]["in"] == 0
    assert cli.main(["ledger", str(tmp_path)]) == 0
    assert "by dataset" not in capsys.readouterr().out


def test_every_item_is_named(prepared: Prepared, capsys: pytest.CaptureFixture[str]) -> None:
    rows = told(capsys, "ledger", str(prepared.out), "--items")["items"]
    assert len(rows) == 12
    by_reason = {row["reason"]: row for row in rows}
    assert by_reason["unreadable"]["source_path"] == str(prepared.source / "page.wav")
    assert by_reason["extension"]["source_path"] == str(prepared.source / "notes.txt")
    [one] = told(capsys, "ledger", str(prepared.out), "--reason", "shard.unreadable")["items"]
    assert one == by_reason["unreadable"]
    assert cli.main(["ledger", str(prepared.out), "--items", "--csv", "--dataset", "in"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 13
    assert cli.main(["ledger", str(prepared.out), "--items"]) == 0
    assert "notes.txt  left_aside shard.extension" in capsys.readouterr().out
    listed = max((prepared.out / "runs").glob("*/left_aside.csv"))
    assert listed.read_text().splitlines()[1] == f"in,{prepared.source}/notes.txt,extension,,1"


def test_what_if_answers_from_measures(
    prepared: Prepared, capsys: pytest.CaptureFixture[str]
) -> None:
    answer = told(
        capsys, "what-if", str(prepared.out),
        "--set", "filter.filters=[{use: duration, min: 1.0}, {use: silence}, {use: clipping}]",
    )  # fmt: skip
    kept = [corpus.seconds_of(n) for n in range(10) if corpus.seconds_of(n) >= 1.0]
    assert answer["now"]["items"] == 10
    assert answer["then"]["items"] == len(kept) < 10
    assert answer["then"]["hours"] * 3600 == pytest.approx(sum(kept), abs=5e-3)
    refused = told(
        capsys, "what-if", str(prepared.out), "--set", "filter.segmenter.use=vad", code=2
    )
    assert "no stored measures" in refused["error"]


def test_verify_and_list(prepared: Prepared, capsys: pytest.CaptureFixture[str]) -> None:
    version = prepared.out / "datasets" / "v0001"
    assert told(capsys, "verify", str(version)) == {"ok": True, "faults": []}
    assert told(capsys, "verify", str(prepared.out / "datasets" / "latest"))["ok"]
    paths = told(capsys, "list", str(version))["paths"]
    assert paths
    assert all(Path(p).is_absolute() and Path(p).is_file() for p in paths)
    prefixed = told(capsys, "list", str(version), "--prefix", "s3://bucket/x/")["paths"]
    assert prefixed[0] == "s3://bucket/x/wenet/train/shards_000000000.tar"
    relative = told(capsys, "list", str(version), "--prefix", "")["paths"]
    assert (version / relative[0]).is_file(), "no prefix: paths relative to the version"
    tar = Path(paths[0])
    data = bytearray(tar.read_bytes())
    data[len(data) // 2] ^= 1
    sound = tar.read_bytes()
    tar.write_bytes(data)
    try:
        assert told(capsys, "verify", str(version), code=3)["faults"]
    finally:
        tar.write_bytes(sound)


def test_plugins_and_schema(capsys: pytest.CaptureFixture[str]) -> None:
    shelves = told(capsys, "plugins")
    assert set(shelves["sources"]) == {
        "folder", "kaldi", "jsonl", "lhotse", "table", "tar", "datajuicer", "hf_parquet",
    }  # fmt: skip
    assert {"whole", "given", "vad", "auto", "applio", "aligned", "dialogue"} == set(
        shelves["segmenters"]
    )
    assert {"given", "none", "segments", "channels"} == set(shelves["diarizers"])
    assert all(entry["about"] for shelf in shelves.values() for entry in shelf.values())
    heard = told(capsys, "plugins", "asr.moonshine")["asr"]["moonshine"]["abilities"]
    assert heard == {"languages": ["en"], "longest": 20.0, "scores": [], "licence": "MIT"}
    tables = told(capsys, "schema")
    assert {"ledger", "utterances", "measures"} <= set(tables)
    for table in tables.values():
        assert all(row["meaning"] for row in table), "every column is explained"
    meanings = {row["column"]: row["meaning"] for row in tables["utterances"]}
    assert "package.splits" in meanings["split"], "names of splits are free"
    assert "diarizer" in meanings["speaker"], "where the source states none"


def test_history_holds_every_task_run(prepared: Prepared, prefect_api: Server) -> None:
    runs = task_runs(prefect_api.url, prepared.out)
    assert set(corpus.STAGES) <= {run["name"].split(" · ")[0] for run in runs}
    assert still_open(prefect_api.url, prepared.out) == []
    assert {run["state_name"] for run in runs} == {"Completed"}
