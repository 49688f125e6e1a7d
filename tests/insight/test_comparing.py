"""Two versions beside each other, by `uttermill compare`."""

from __future__ import annotations

import csv
import io
import json
from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.helpers import corpus
from uttermill.flows import cli


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


@pytest.mark.nightly
def test_two_versions_of_an_out(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    result = json.loads(compared(capsys, home / "out", 1, 2, "--json"))
    assert [Path(path).name for path in result["versions"]] == ["v0001", "v0002"]
    before, dropped = result["reasons"]["filter.too_long"]["items"]
    assert before == 0
    assert dropped > 0
    assert result["totals"]["clips"] == [3, 6 - dropped]
    assert result["totals"]["recordings in"] == [3, 6]
    assert result["totals"]["speakers"] == [None, None], "unknown, and not none"
    clips = result["clips"]
    assert clips["common"] + clips["added"] == 6 - dropped
    assert clips["common"] + clips["removed"] == 3


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
