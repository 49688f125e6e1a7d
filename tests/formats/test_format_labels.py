"""The source's labels in a version: as a column, in formats with free fields, and on the card."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.formats.test_format_hf import datasets  # noqa: F401  (a fixture)
from tests.helpers import corpus
from tests.helpers.format_entries import entries
from uttermill.tasks.publish.upkeep import verify

FORMATS = ("webdataset", "lhotse_shar", "nemo", "emilia", "litdata", "hf_parquet", "lance", "wenet")
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
    for use in FORMATS[:5]:
        by_id = entries(version, use)
        assert {name: entry.get("labels") for name, entry in by_id.items()} == stated, use
        assert sum("labels" in entry for entry in by_id.values()) == 3, use
    assert verify.verify(version) == []


def by_name(rows: Iterable[dict[str, Any]]) -> dict[str, dict[str, str] | None]:
    return {
        row["id"]: row["labels"] and {one["name"]: one["value"] for one in row["labels"]}
        for row in rows
    }


def test_datasets_reads_them(
    version: Path,
    stated: dict[str, dict[str, str] | None],
    datasets: Any,  # noqa: F811  (the fixture)
    tmp_path: Path,
) -> None:
    loaded = datasets.load_dataset(
        str(version / "hf_parquet"), split="train", cache_dir=str(tmp_path)
    )
    assert by_name(loaded.remove_columns("audio")) == stated


def test_lance_reads_them(version: Path, stated: dict[str, dict[str, str] | None]) -> None:
    pytest.importorskip("lance", reason="the extra lance is not installed")
    assert by_name(entries(version, "lance").values()) == stated


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
