"""Corrections in a table: `review export OUT --csv`, and `review import OUT x.csv`."""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

from tests.helpers import corpus, tampered
from uttermill.flows import cli
from uttermill.flows.cli import reviews
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.settings import Plugin
from uttermill.tasks.shard_store import decision_log

NOW = "2026-01-01T00:00:00Z"


def decided(out: Path) -> dict[str, str]:
    entries = decision_log.last(decision_log.read(decision_log.stored(out)))
    return {key: entry.decision for key, entry in entries.items()}


@pytest.mark.parametrize("form", ["{}", "\ufeff{}", "sep=;\n{}", "semicolons", "tabs"])
def test_a_table_of_a_spreadsheet(form: str) -> None:
    lines = 'id,decision,text,outcome\na,drop,,packaged\nb,,"say, ""this""",dropped\nc,,,packaged\n'
    if form in ("semicolons", "tabs", "sep=;\n{}"):
        separator = "\t" if form == "tabs" else ";"
        cells = csv.reader(io.StringIO(lines))
        target = io.StringIO()
        csv.writer(target, delimiter=separator).writerows(cells)
        lines = target.getvalue()
    text = (form if "{}" in form else "{}").format(lines)
    assert reviews.is_table(text)
    found = [(one.id, one.decision, one.text) for one in reviews.read_table(text, "x.csv", NOW)]
    assert found == [("a", "drop", None), ("b", "retext", 'say, "this"')]


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("name,decision\na,drop\n", "x.csv is not a list of decisions: JSON lines, or a table"),
        ("id,decision\na,drop\nb,maybe\n", "x.csv, line 3: decision is 'maybe'; use keep"),
    ],
)
def test_a_wrong_table_says_where(text: str, says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        reviews.read_table(text, "x.csv", NOW)


@pytest.mark.parametrize("text", ["", "\n", "\ufeff", "just words\n", "[1]\n"])
def test_a_file_without_decisions_says_what_it_should_be(text: str) -> None:
    expected = (
        r"JSON lines, or a table with the columns id and decision or text \(`uttermill review"
    )
    with pytest.raises(ConfigError, match=expected):
        reviews._decisions(text, "x.csv")


def test_clips_are_corrected_in_a_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    corpus.make(tmp_path / "in", 4)
    job = corpus.job(tmp_path, filter=corpus.filters(min=0.5))  # r00 has 0.4 s
    corpus.run(job)
    (job.out / "runs").mkdir()
    assert cli.main(["review", "export", str(job.out), "--csv"]) == 0
    exported = capsys.readouterr().out
    rows = list(csv.DictReader(io.StringIO(exported)))
    assert tuple(rows[0]) == reviews.COLUMNS
    assert len(rows) == 4
    assert [Path(row["source_path"]).is_file() for row in rows] == [True] * 4
    short, *others = rows
    assert (short["outcome"], short["reason"], short["limit"]) == ("dropped", "too_short", "0.5")
    assert float(short["value"]) == corpus.seconds_of(0)
    assert {row["outcome"] for row in others} == {"packaged"}
    assert all(row["heard"] for row in others)

    short["decision"] = "keep"
    others[0]["text"] = "what was said; indeed"
    table = tmp_path / "x.csv"
    with table.open("w", newline="", encoding="utf-8-sig") as file:
        file.write("sep=;\n")
        writer = csv.DictWriter(file, reviews.COLUMNS, delimiter=";")
        writer.writeheader()
        writer.writerows(rows)
    assert cli.main(["review", "import", str(job.out), str(table)]) == 0
    assert "2 decisions stored (1 keep, 1 retext)" in capsys.readouterr().out
    table.write_text(table.read_text("utf-8-sig"), "utf-16")
    assert decided(job.out) == {short["id"]: "keep", others[0]["id"]: "retext"}
    assert cli.main(["review", "import", str(job.out), str(table)]) == 0
    assert len(list(decision_log.read(decision_log.stored(job.out)))) == 2  # none is stored twice
    published, _ = corpus.run(job)
    assert published.summary["utterances"]["packaged"] == 4

    table.write_text("id,decision\nnobody,drop\n")
    assert cli.main(["review", "import", str(job.out), str(table)]) == 2
    assert "names no clip of the newest version" in capsys.readouterr().err
    assert len(decided(job.out)) == 2


def test_the_given_text_of_a_dropped_clip_is_shown(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Who judges a high error rate compares what was given with what was heard."""
    corpus.make(tmp_path / "in", 2)
    (tmp_path / "in/r00.txt").write_text("nothing like it")
    (tmp_path / "settings.yaml").write_text(
        f"sources: [{{kind: folder, path: {tmp_path}/in, name: c}}]\n"
        "shard: {settle_seconds: 0}\n"
        "transcribe: {backend: {use: fake}, verdicts: [{use: error_rate, max_wer: 0}]}\n"
    )
    tampered.run(tmp_path / "out")
    given, heard = reviews.table(tmp_path / "out")
    assert (given["reason"], given["measure"]) == ("high_error_rate", "wer")
    assert given["reference"] == "nothing like it"
    assert given["heard"]
    assert (heard["outcome"], heard["reference"]) == ("packaged", None)
    capsys.readouterr()
    assert cli.main(["ledger", str(tmp_path / "out"), "--items", "--csv"]) == 0
    first, _ = csv.DictReader(io.StringIO(capsys.readouterr().out))
    expected = {**given, "threshold": given["limit"]}
    assert {name: first[name] for name in expected} == {
        name: "" if value is None else str(value) for name, value in expected.items()
    }


def test_each_rule_is_of_the_stage_that_the_ledger_names(tmp_path: Path) -> None:
    """The limit of an enhanced clip's score counted as a filter's, so its measure had no name."""
    job = corpus.job(tmp_path, enhance=Plugin.model_validate({"use": "gtcrn", "min_ovrl": 2.5}))
    measures = reviews._measures(job)
    assert measures["enhance", "low_dnsmos_ovrl"] == ["dnsmos_ovrl_enhanced"]
    assert ("filter", "low_dnsmos_ovrl") not in measures
