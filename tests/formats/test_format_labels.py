"""The source's labels in a version: as a column, in formats with free fields, and on the card."""

import gzip
import json
import tarfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.formats.test_format_hf import datasets  # noqa: F401  (a fixture)
from tests.helpers import corpus
from uttermill.tasks.publish.upkeep import verify

FORMATS = ("webdataset", "lhotse_shar", "nemo", "emilia", "hf_parquet", "lance", "litdata", "wenet")
LABELS: tuple[dict[str, str], ...] = (
    {"emotion": "happy | <b>", "accent": "us"},
    {"emotion": "sad"},
    {},
    {"emotion": "sad"},
)


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("labels")
    corpus.make(home / "in", len(LABELS))
    lines = [{"wav": f"in/r0{n}.wav", "key": f"k{n}", "txt": f"words {n}", **said}
             for n, said in enumerate(LABELS)]  # fmt: skip
    corpus.jsonl(home / "list.jsonl", lines)
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "labels": ["emotion", "accent"]}
    package = {"formats": FORMATS}
    published, _ = corpus.run(corpus.job(home, sources=[source], package=package))
    return published.path


@pytest.fixture
def stated(version: Path) -> dict[str, dict[str, str] | None]:
    """Labels by id, as the column has them."""
    rows = pq.read_table(version / "utterances.parquet", columns=["id", "source_id", "labels"])
    by_id = {row["id"]: row for row in rows.to_pylist()}
    said = [by_id[name]["labels"] for name in sorted(by_id, key=lambda n: by_id[n]["source_id"])]
    assert [dict(labels or ()) for labels in said] == [*LABELS]
    assert said[2] is None
    return {name: row["labels"] and dict(row["labels"]) for name, row in by_id.items()}


@pytest.mark.full
def test_formats_with_free_fields_hold_them(
    version: Path, stated: dict[str, dict[str, str] | None]
) -> None:
    entries: dict[str, dict[str, dict[str, Any]]] = {use: {} for use in FORMATS[:4]}
    for tar in version.glob("webdataset/train/*.tar"):
        with tarfile.open(tar) as members:
            for member in members:
                if member.name.endswith(".json") and (file := members.extractfile(member)):
                    entry = json.load(file)
                    entries["webdataset"][entry["id"]] = entry
    for cuts in version.glob("lhotse_shar/train/cuts.*.jsonl.gz"):
        for line in gzip.decompress(cuts.read_bytes()).splitlines():
            cut = json.loads(line)
            entries["lhotse_shar"][cut["supervisions"][0]["id"]] = cut["custom"]
    lines = (version / "nemo/train/tarred_audio_manifest.json").read_text().splitlines()
    entries["nemo"] = {entry["id"]: entry for entry in map(json.loads, lines)}
    for listed in version.glob("emilia/train/*/*.json"):
        entries["emilia"] |= {entry["id"]: entry for entry in json.loads(listed.read_text())}
    for use, by_id in entries.items():
        assert {name: entry.get("labels") for name, entry in by_id.items()} == stated, use
        assert sum("labels" in entry for entry in by_id.values()) == 3, use
    assert verify.verify(version) == []


def test_datasets_reads_them(
    version: Path,
    stated: dict[str, dict[str, str] | None],
    datasets: Any,  # noqa: F811  (the fixture)
    tmp_path: Path,
) -> None:
    loaded = datasets.load_dataset(
        str(version / "hf_parquet"), split="train", cache_dir=str(tmp_path)
    )
    loaded = loaded.remove_columns("audio")
    read = {row["id"]: row["labels"] for row in loaded}
    assert {
        name: labels and {one["name"]: one["value"] for one in labels}
        for name, labels in read.items()
    } == stated


def test_lance_reads_them(version: Path, stated: dict[str, dict[str, str] | None]) -> None:
    lance = pytest.importorskip("lance", reason="the extra lance is not installed")
    table = lance.dataset(str(version / "lance/train"))
    read = {row["id"]: row["labels"] for row in table.take([3, 2, 1, 0]).to_pylist()}
    assert {
        name: labels and {one["name"]: one["value"] for one in labels}
        for name, labels in read.items()
    } == stated
    assert len(table.to_table(columns=["audio"])) == len(stated)


def test_the_card_says_hours_by_label(version: Path) -> None:
    told = json.loads((version / "dataset.json").read_text())["labels"]
    assert [(row["label"], row["value"], row["utterances"]) for row in told] == [
        ("emotion", "sad", 2),
        ("emotion", "happy | <b>", 1),
        ("accent", "us", 1),
    ]
    card = (version / "README.md").read_text()
    assert "| emotion | sad | 2 | 0.000 |" in card
    assert "| emotion | happy \\| &lt;b> | 1 | 0.000 |" in card
