"""croissant.json says which files a version has and what its columns mean; see `tests.readers` for
MLCommons' own validator."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus

PACKAGE = {
    "tar_hours": 2.5 / 3600,
    "splits": {"dev": 0.3},
    "formats": [
        "wenet",
        "kaldi",
        {"use": "webdataset", "audio": "opus"},
        {"use": "metadata_csv", "profile": "piper"},
    ],
}


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    tmp = tmp_path_factory.mktemp("croissant")
    corpus.make(tmp / "in", 6)
    return corpus.run(corpus.job(tmp, package=PACKAGE))[0].path


@pytest.fixture(scope="module")
def described(version: Path) -> dict[str, Any]:
    content: dict[str, Any] = json.loads((version / "croissant.json").read_text("utf-8"))
    return content


def test_every_column_is_a_field_with_its_type(version: Path, described: dict[str, Any]) -> None:
    [records] = described["recordSet"]
    schema = pq.read_schema(version / "utterances.parquet")
    types = {field["name"]: field["dataType"] for field in records["field"]}
    assert types == {
        column.name: {"string": "sc:Text", "double": "sc:Float", "int64": "sc:Integer"}.get(
            str(column.type), types.get(column.name)
        )
        for column in schema
        if not str(column.type).startswith(("list", "struct"))
    }
    assert all(field["description"] for field in records["field"])
    assert {field["source"]["fileObject"]["@id"] for field in records["field"]} == {
        "utterances.parquet"
    }


def test_every_file_with_audio_is_in_one_set(version: Path, described: dict[str, Any]) -> None:
    sets = [entry for entry in described["distribution"] if entry["@type"] == "cr:FileSet"]
    of_sets = [path for entry in sets for path in version.glob(entry["includes"])]
    assert len(of_sets) == len({*of_sets})
    audio = {".tar", ".ark", ".wav"}
    assert {path for path in version.rglob("*") if path.suffix in audio} == {*of_sets}
    [table] = [entry for entry in described["distribution"] if entry["@type"] != "cr:FileSet"]
    files = json.loads((version / "dataset.json").read_text())["files"]
    assert table["sha256"] == files["utterances.parquet"]["sha256"]
