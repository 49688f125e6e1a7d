"""Where people look, annotations are there: report, data card, schema, explorer."""

import json
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from tests.explore.test_explore import client_of, get
from tests.helpers import corpus
from tests.insight.test_report import Page, recorded
from uttermill.flows import cli
from uttermill.flows.explore import clip
from uttermill.flows.run import report
from uttermill.tasks.settings.job import Job


def asked(home: Path) -> Job:
    tagging = {"use": "tests.plugins.tagging", "allowed_length": ["long"]}
    transcribe = {"backend": {"use": "fake"}, "verdicts": [{"use": "tests.plugins.moods"}]}
    package = {"publish": ["tagging_sounds", "tagging_level"]}
    filters = corpus.filters(tagging)
    return corpus.job(home, filter=filters, transcribe=transcribe, package=package)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> tuple[Job, Path]:
    """Four recordings, of which one is short and dropped for that."""
    home = tmp_path_factory.mktemp("shown")
    corpus.make(home / "in", 4)
    job = asked(home)
    return job, recorded(job)


@pytest.fixture(scope="module")
def client(made: tuple[Job, Path], tmp_path_factory: pytest.TempPathFactory) -> TestClient:
    return client_of(made[0].out, tmp_path_factory.mktemp("client"))


def test_the_report_counts_labels(made: tuple[Job, Path]) -> None:
    job, folder = made
    text = report.page(job, folder).decode()
    assert 'id="labels"' in text
    section = text.partition('id="labels"')[2].partition("</section>")[0]
    words = " ".join(section.replace("<", " <").split())
    assert "tagging_length" in words
    assert "moods" in words
    assert words.index("long") < words.index("short"), "most hours first"
    assert ">3</td>" in section
    assert ">1</td>" in section
    Page(text)
    measures = json.loads(text.partition('id="data">')[2].partition("</script>")[0])["measures"]
    names = {measure["name"] for measure in measures}
    assert "tagging_sounds_start" in names
    assert not {"tagging_length", "moods"} & names


def test_the_card_lists_them(made: tuple[Job, Path]) -> None:
    version = made[0].out / "datasets/v0001"
    declared = json.loads((version / "dataset.json").read_text())["annotations"]
    assert {name: about["kind"] for name, about in declared.items()} == {
        "tagging_length": "label", "tagging_level": "array", "tagging_sounds": "events",
        "moods": "label",
    }  # fmt: skip
    assert declared["tagging_level"]["rate"] == 10.0
    [long] = declared["tagging_length"]["values"]
    assert (long["value"], long["utterances"]) == ("long", 3)
    card = (version / "README.md").read_text()
    assert "| tagging_sounds | events | what is heard (events: start, Loud part) |" in card
    assert "| tagging_length | long | 3 |" in card


def test_schema_and_plugins_describe_them(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["schema", "--json"]) == 0
    tables = json.loads(capsys.readouterr().out.splitlines()[-1])
    entries = {entry["column"]: entry["type"] for entry in tables["annotations"]}
    assert entries["turns"] == "events"
    assert entries["speaker_embedding"] == "vector"
    assert cli.main(["plugins", "filters.tests.plugins.tagging"]) == 0
    shown = capsys.readouterr().out
    assert "gives the label tagging_length: how long the clip is (short, long)" in shown
    assert "measures tagging_sounds_loud_part: share of the clip" in shown


def test_the_explorer_has_labels_as_facets_and_the_rest_on_the_clip(client: TestClient) -> None:
    facets = get(client, "/api/about")["facets"]
    counts = {value["value"]: value["items"] for value in facets["tagging_length"]}
    assert counts == {"long": 3, "short": 1}, "of dropped clips too"
    rows = client.get("/api/rows", params={"in.tagging_length": "short"}).json()["rows"]
    assert [row["reason"] for row in rows] == ["wrong_tagging_length"]
    assert "tagging_level" not in rows[0]
    [item, *_] = [row["item"] for row in get(client, "/api/rows")["rows"]]
    annotations = {one["name"]: one for one in get(client, f"/api/clip/{item}")["annotations"]}
    assert list(annotations) == [
        "tagging_length", "tagging_voice", "tagging_level", "tagging_sounds",
        "moods", "moods_words",
    ]  # fmt: skip
    assert [event["label"] for event in annotations["tagging_sounds"]["value"]] == [
        "start", "Loud part"
    ]  # fmt: skip
    assert len(annotations["tagging_voice"]["value"]) == 3
    assert annotations["tagging_level"]["rate"] == 10.0


def test_a_long_array_is_shown_to_its_end(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Fewer of its values, at a lower rate: the last part of a contour was missing."""
    item = max(get(client, "/api/rows")["rows"], key=lambda row: row["seconds"])["item"]

    def level() -> dict[str, Any]:
        annotations = get(client, f"/api/clip/{item}")["annotations"]
        return next(one for one in annotations if one["name"] == "tagging_level")

    whole = level()
    monkeypatch.setattr(clip, "POINTS", 5)
    few = level()
    step = -(-len(whole["value"]) // 5)
    assert step > 1
    assert few["value"] == whole["value"][::step]
    assert few["rate"] == whole["rate"] / step
