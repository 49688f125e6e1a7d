"""What `package.publish` names, and labels of the source: as columns, on the card, and read back
from every format with free fields."""

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.formats.test_format_lhotse import datasets  # noqa: F401  (a fixture)
from tests.helpers import corpus
from tests.helpers.format_entries import entries
from uttermill.tasks import plugins
from uttermill.tasks.base import shelves
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.publish import published_columns
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job

SETTINGS: dict[str, dict[str, Any]] = {
    "wenet": {"facts": True},
    "metadata_csv": {"profile": "hf_audiofolder"},
}


def of_format(use: str) -> dict[str, Any]:
    return {"use": use, **SETTINGS.get(use, {})}


def holds(use: str) -> bool:
    module, settings = plugins.FORMATS.resolve(Plugin.model_validate(of_format(use)))
    return module.holds_annotations(settings) or module.lists_annotations(settings)


HOLDING = [use for use in shelves.names("formats") if holds(use)]
FORMATS = [of_format(use) for use in HOLDING]
PLAIN = ({"use": "kaldi"}, {"use": "chat_jsonl"})
LABELS: tuple[dict[str, str], ...] = (
    {"emotion": "happy | <b>", "accent": "us"},
    {"emotion": "sad"},
    {},
    {"emotion": "sad"},
)
PUBLISH = ("tagging_voice", "tagging_level", "tagging_sounds", "tagging_length", "moods_words")


def asked(home: Path, publish: tuple[str, ...] = PUBLISH, **changes: Any) -> Job:
    package = {"formats": [*FORMATS, *PLAIN], "publish": publish, "tar_hours": 1.0 / 3600}
    changes["package"] = {**package, **changes.pop("package", {})}
    transcribe = {"backend": {"use": "fake"}, "verdicts": [{"use": "tests.plugins.moods"}]}
    filters = corpus.filters({"use": "tests.plugins.tagging"})
    return corpus.job(home, filter=filters, transcribe=transcribe, **changes)


@pytest.fixture(scope="module")
def version(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Of recordings with labels, with all that is published where it is asked for."""
    home = tmp_path_factory.mktemp("annotations")
    corpus.make(home / "in", len(LABELS))
    lines = [{"wav": f"in/r0{n}.wav", "key": f"k{n}", "txt": f"words {n}", **said}
             for n, said in enumerate(LABELS)]  # fmt: skip
    corpus.jsonl(home / "list.jsonl", lines)
    source = {"kind": "jsonl", "path": str(home / "list.jsonl"), "labels": ["emotion", "accent"]}
    return corpus.run(asked(home, sources=[source]))[0].path


def rows(version: Path) -> dict[str, dict[str, Any]]:
    table = pq.read_table(version / "utterances.parquet", columns=["id", *PUBLISH])
    return {row.pop("id"): row for row in table.to_pylist()}


@pytest.mark.full
@pytest.mark.parametrize("use", HOLDING)
def test_a_format_holds_what_is_published(version: Path, use: str) -> None:
    wanted = rows(version)
    found = entries(version, use)
    assert found.keys() == wanted.keys()
    for name, row in wanted.items():
        told = {column: found[name][column] for column in PUBLISH}
        if use == "metadata_csv":
            told |= {n: json.loads(text) for n, text in told.items() if n != "tagging_length"}
        assert told == row
    assert {row["tagging_length"] for row in wanted.values()} == {"short", "long"}


def test_what_is_written_reads_back(version: Path) -> None:
    assert verify(version) == []


@pytest.fixture
def stated(version: Path) -> dict[str, dict[str, str] | None]:
    """Labels by id, as the column has them."""
    by_id = {row["id"]: row for row in corpus.utterances(version)}
    said = [by_id[name]["labels"] for name in sorted(by_id, key=lambda n: by_id[n]["source_id"])]
    assert [dict(labels or ()) for labels in said] == [*LABELS]
    assert said[2] is None
    return {name: row["labels"] and dict(row["labels"]) for name, row in by_id.items()}


@pytest.mark.full
@pytest.mark.parametrize("use", ["webdataset", "lhotse_shar", "nemo", "emilia", "litdata"])
def test_formats_with_free_fields_hold_labels(
    version: Path, stated: dict[str, dict[str, str] | None], use: str
) -> None:
    by_id = entries(version, use)
    assert {name: entry.get("labels") for name, entry in by_id.items()} == stated
    assert sum("labels" in entry for entry in by_id.values()) == 3


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
    ).remove_columns("audio")
    wanted = rows(version)
    for row in loaded:
        assert {column: row[column] for column in PUBLISH} == wanted[row["id"]]
    assert by_name(loaded) == stated


def test_lance_reads_labels(version: Path, stated: dict[str, dict[str, str] | None]) -> None:
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


@pytest.mark.nightly
def test_publishing_more_rewrites_only_formats_that_hold_it(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)
    formats = {"formats": [{"use": "wenet"}, {"use": "webdataset"}]}
    one, _ = corpus.run(asked(tmp_path, (), package=formats))
    plan = planning.plan(
        asked(tmp_path, ("words",), package=formats), asked(tmp_path, (), package=formats)
    )
    assert plan.stages["package"].compute == 2
    assert [*plan.stages["package"].because] == ["package.publish"]
    assert plan.stages["filter"].compute == 0
    wenet = {"formats": [{"use": "wenet"}]}
    plan = planning.plan(
        asked(tmp_path, ("words",), package=wenet), asked(tmp_path, (), package=formats)
    )
    assert plan.stages["package"].compute == 0
    two, counts = corpus.run(asked(tmp_path, ("words",), package=formats))
    assert counts["filter"] == counts["transcribe"] == (0, 2)
    assert two.linked == two.written > 0
    assert all("word_times" in entry for entry in entries(two.path, "webdataset").values())
    assert not any("word_times" in entry for entry in entries(one.path, "webdataset").values())
    assert verify(one.path) == verify(two.path) == []
    three, _ = corpus.run(asked(tmp_path, (), package=formats))
    assert not any("word_times" in entry for entry in entries(three.path, "webdataset").values())


def test_a_format_without_a_field_is_named_before_the_run(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    corpus.make(tmp_path / "in", 1)
    uses = [{"use": use} for use in ("wenet", "kaldi", "webdataset", "emilia", "metadata_csv")]
    published_columns.check(asked(tmp_path, package={"formats": uses}))
    said = [record.getMessage() for record in caplog.records]
    assert [sentence.split()[3] for sentence in said] == ["wenet", "kaldi", "metadata_csv"]
    assert said[0].endswith("by id, and {use: wenet, facts: true} writes it beside each clip")
    assert all(
        f"has no field for {', '.join(PUBLISH)}; utterances.parquet" in sentence
        for sentence in said
    )
    caplog.clear()
    published_columns.check(asked(tmp_path, (), package={"formats": uses}))
    assert not caplog.records


def test_places_in_a_tar_with_facts_are_right(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    made = corpus.run(asked(tmp_path, package={"formats": [of_format("wenet")]}))[0].path
    assert verify(made) == []
    for row in corpus.utterances(made):
        with (made / row["shard"]).open("rb") as file:
            file.seek(row["offset"])
            assert file.read(100).rstrip(b"\0").decode() == f"{row['id']}.txt"
