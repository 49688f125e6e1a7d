"""The most frequent texts of a version, for its report."""

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.insight.test_report import recorded
from tests.text.test_near_texts import ADVERT
from uttermill.flows import cli
from uttermill.flows.run import report as run_report
from uttermill.tasks.base.schema import UTTERANCES_FILE
from uttermill.tasks.insight import frequent_texts
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.storage import queries


def write(folder: Path, texts: list[str | None], **more: list[int]) -> None:
    counts = {"num_samples": [16_000] * len(texts), "sample_rate": [16_000] * len(texts)}
    pq.write_table(pa.table({"normalised": texts, **counts, **more}), folder / UTTERANCES_FILE)


def found(folder: Path, most: int = 20) -> list[tuple[str, int, float, int]]:
    """The text, the clips, their seconds and the different texts of each group."""
    return [
        (row["name"], row["items"], round(3600 * row["hours"], 6), row["different"])
        for row in frequent_texts.of_version(folder, most, queries.MEMORY)
    ]


def test_texts_of_several_clips_come_by_their_number(tmp_path: Path) -> None:
    write(tmp_path, ["b", "a", "b", "once", None, None, "", "", "a", "b", "x" * 300, "x" * 300])
    assert found(tmp_path) == [("b", 3, 3.0, 1), ("a", 2, 2.0, 1), ("x" * 300, 2, 2.0, 1)]
    assert found(tmp_path, most=1) == [("b", 3, 3.0, 1)]


def test_near_equal_ones_are_one_by_the_name_of_the_most_frequent(tmp_path: Path) -> None:
    other = ADVERT.replace("finest", "best")
    write(tmp_path, ["a", ADVERT, other, "a", ADVERT])
    assert found(tmp_path) == [(ADVERT, 3, 3.0, 2), ("a", 2, 2.0, 1)]


def test_tables_keep_to_the_memory_that_the_run_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.make(tmp_path / "in", 2)
    job = corpus.job(tmp_path, package={"memory": "123MB"})
    folder = recorded(job)
    asked: list[str] = []
    tables = queries.tables

    def noted(memory: str = "default", scratch: Path | None = None, divisor: int = 1) -> object:
        asked.append(memory)
        return tables(memory, scratch, divisor)

    monkeypatch.setattr(queries, "tables", noted)
    run_report.page(job, folder)
    assert len(asked) >= 2
    assert {*asked} == {"123MB"}


# Two versions beside each other, by `uttermill compare`.


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Version 1 of three clips; 2 of six, some of them dropped; and another OUT of the six."""
    home = tmp_path_factory.mktemp("compared")
    corpus.make(home / "in", 3)
    corpus.run(corpus.job(home))
    corpus.make(home / "in", 6)
    limit = corpus.seconds_of(5) - 0.001
    corpus.run(corpus.job(home, filter=corpus.filters(max=limit)))
    corpus.run(corpus.job(home, out=home / "other"))
    return home


def compared(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    assert cli.main(["compare", *map(str, words)]) == 0
    return capsys.readouterr().out


def test_two_outs_on_the_same_recordings(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads(compared(capsys, home / "out", home / "other", "--json"))
    common = result["totals"]["clips"][0]
    clips = {"removed": 0, "changed": 0, "added": 6 - common, "common": common}
    assert result["clips"] == clips


def test_as_a_table_and_a_picture(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    picture = home / "hours.svg"
    rows = csv.reader(io.StringIO(compared(capsys, home / "out", 1, 2, "--csv", "--svg", picture)))
    heads, *lines = rows
    assert heads == ["section", "name", "old", "new"]
    assert ["total", "clips", "3"] in [line[:3] for line in lines]
    texts = {each.text for each in ElementTree.parse(picture).iter() if each.text}
    assert {"v0001", "v0002", "packaged", "filter.too_long"} <= texts
    shown = compared(capsys, home / "out", 1, 2)
    assert "filter.too_long" in shown
    assert "speakers           unknown  unknown" in shown


def test_a_file_is_no_out(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It was told of a folder `a.wav/datasets/v0001` that is not there."""
    (tmp_path / "a.wav").write_bytes(b"RIFF")
    assert cli.main(["compare", str(tmp_path / "a.wav"), "1", "2"]) == 2
    assert "a.wav is not the OUT of a run: it is a file" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("others", "said"),
    [
        (("7",), "two numbers of versions"),
        (("1", "7"), "has no version 7; versions there: 1"),
        (("1", "2", "3"), "two numbers of versions"),
    ],
)
def test_what_cannot_be_compared(
    home: Path, capsys: pytest.CaptureFixture[str], others: tuple[str, ...], said: str
) -> None:
    assert cli.main(["compare", str(home / "out"), *others]) == 2
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert said in error


# A plan counts the clips of which a source says another speaker, language or label.


def listed(folder: Path, **changed: str) -> Path:
    """A table of three recordings; the first one's columns `changed`."""
    path = folder / "list.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        row = {"text": "so", "speaker": "anna", "language": "en", "emotion": "glad"}
        rows.writerow(["file", *row])
        for number in range(3):
            rows.writerow([f"r{number:02d}.wav", *(row | (changed if not number else {})).values()])
    return path


def planned(tmp_path: Path, use: str, **changed: str) -> tuple[planning.Plan, int]:
    """The plan once the list has `changed`, and the clips that the run then writes."""
    corpus.make(tmp_path / "in", 3)
    path = listed(tmp_path / "in")
    source = {"kind": "table", "path": str(path), "name": "c", "labels": ["emotion"]}
    job = corpus.job(tmp_path, sources=[source], package={"formats": [use]})
    corpus.run(job)
    assert planning.plan(job, job).redescribed == 0
    listed(tmp_path / "in", **changed)
    plan = planning.plan(job, job)
    published, counts = corpus.run(job)
    assert published.new
    assert planning.plan(job, job).redescribed == 0
    return plan, counts["package"][0]


@pytest.mark.parametrize(
    ("changed", "seen"),
    [({"speaker": "ben"}, False), ({"speaker": ""}, False), ({"emotion": "sad"}, False),
     ({"emotion": ""}, False), ({"text": "so it is"}, True)],
)  # fmt: skip
@pytest.mark.nightly
def test_another_description_is_foreseen(
    tmp_path: Path, changed: dict[str, str], seen: bool
) -> None:
    """It said that the newest version would stay as it is."""
    for use, written in (("wenet", 3 * seen), ("hf_parquet", 3)):
        plan, counted = planned(tmp_path / use, use, **changed)
        assert plan.redescribed == 1
        assert plan.stages["package"].compute == counted == written
        assert [*plan.stages["package"].because] == (["sources"] if written else [])


def test_another_language_is_the_cause_of_another_transcript(tmp_path: Path) -> None:
    plan, _ = planned(tmp_path, "wenet", language="de")
    transcribe = plan.stages["transcribe"]
    assert (transcribe.compute, [*transcribe.because]) == (1, ["sources"])
