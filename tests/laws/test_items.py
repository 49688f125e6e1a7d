"""Every item by name: what was dropped or failed, and what a source left aside."""

import csv
import gzip
import io
import json
import os
import pickle
import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.cli.test_commands import told
from tests.cli.test_plan_command import prepared, written
from tests.helpers import corpus
from uttermill.flows.run import ledger_items, run_folder
from uttermill.tasks.accounting import broken
from uttermill.tasks.base.errors import NothingLeft, RunError
from uttermill.tasks.base.schema import LEDGER
from uttermill.tasks.recording import file_kinds
from uttermill.tasks.stages.listing.skipped import Skipped


def odd_folder(folder: Path) -> Path:
    corpus.make(folder, 2)
    (folder / "notes[en].txt").write_text("no audio")
    (folder / ".hidden.wav").write_bytes(b"x")
    (folder / "half.wav.part").write_bytes(b"x")
    (folder / "again").symlink_to(folder)
    (folder / "new\nline.xyz").write_text("x")
    return folder


def test_a_survey_names_all_that_it_leaves_aside(tmp_path: Path) -> None:
    folder = odd_folder(tmp_path / "in")
    found = corpus.surveyed(corpus.job(tmp_path))
    assert {(Path(e.source_path).name, e.reason) for e in found.left} == {
        ("notes[en].txt", "extension"), (".hidden.wav", "hidden"),
        ("half.wav.part", "temporary"), ("again", "duplicate_folder"),
        ("new\nline.xyz", "extension"),
    }  # fmt: skip
    assert all(str(folder) == str(Path(e.source_path).parent) for e in found.left)
    assert found.ignored == {"duplicate_folder": 1, "extension": 2, "hidden": 1, "temporary": 1}


def test_files_without_a_header_are_read_by_name_or_named_with_the_remedy(tmp_path: Path) -> None:
    """In a folder, in archives, in Parquet cells, and as the file that a list names."""
    data = {"a.g722": bytes(range(1, 201)) * 40, "b.sln": bytes(range(1, 251)) * 40}
    folder = tmp_path / "in"
    folder.mkdir()
    for name, content in data.items():
        (folder / name).write_bytes(content)
    with tarfile.open(folder / "t.tar", "w") as file:
        file.add(folder / "a.g722", "a.g722")
    (folder / "p.tgz").write_bytes(gzip.compress((folder / "t.tar").read_bytes()))
    with zipfile.ZipFile(folder / "z.zip", "w") as archive:
        archive.write(folder / "a.g722", "a.g722")
    cells = [{"bytes": data["a.g722"], "path": "a.g722"}]
    pq.write_table(pa.table({"audio": cells}), tmp_path / "t.parquet")
    lines = [{"key": name, "wav": f"in/{name}", "txt": "x"} for name in data]
    corpus.jsonl(tmp_path / "list.jsonl", lines)
    sources: list[dict[str, object]] = [
        {"kind": "folder", "path": str(folder), "name": "f", "archives": True},
        {"kind": "tar", "path": str(folder / "t.tar"), "name": "t"},
        {"kind": "hf_parquet", "path": str(tmp_path / "t.parquet"), "name": "h"},
        {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "l"},
    ]
    job = corpus.job(tmp_path, sources=[{**each, "expect_broken": True} for each in sources])
    remedy = file_kinds.rateless("sln")
    [stated] = [one for one in corpus.surveyed(job).stated if "not read" in one]
    assert stated == f"1 file is not read, such as {folder}/b.sln: {remedy}"
    published, _ = corpus.run(job)
    rows = corpus.ledger(published.path)
    failed = [row for row in rows if row["outcome"] == "failed"]
    assert [(row["source_path"], row["detail"]) for row in failed] == [(f"{folder}/b.sln", remedy)]
    seconds = {row["recording"]: row["seconds"] for row in rows if row["outcome"] != "failed"}
    assert set(seconds.values()) == {1.0}
    assert {*seconds} == {
        "f/a.g722", "f/p.tgz/a.g722", "f/t.tar/a.g722", "f/z.zip/a.g722", "h/t.parquet/0",
        "l/in/a.g722", "t/t.tar/a.g722",
    }  # fmt: skip
    items = [*ledger_items.rows([], corpus.surveyed(job).left, "extension")]
    assert [row["detail"] for row in items] == [remedy]


def test_a_line_that_gives_a_file_another_text_is_told_apart(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 1)
    path = corpus.listed(tmp_path / "in", 1, tmp_path / "list.jsonl")
    line = json.loads(path.read_text())
    path.write_text(path.read_text() + json.dumps({**line, "txt": "something else"}) + "\n")
    source = {"kind": "jsonl", "path": str(path), "name": "c"}
    found = corpus.surveyed(corpus.job(tmp_path, sources=[source]))
    [one] = ledger_items.rows([], found.left)
    assert (one["source_path"], one["reason"]) == (f"{path}:2", "other_text")
    assert (
        one["detail"]
        == "an earlier row of the list names this audio with another text, which is used"
    )


def test_what_is_left_aside_is_kept_with_the_run(tmp_path: Path) -> None:
    left = [
        Skipped("c", '/in/a\n,"b".txt', "extension"),
        Skipped("c", "/in/.x", "hidden", "", 1_500),
    ]
    folder = tmp_path / "runs" / "20260101T000000Z"
    folder.mkdir(parents=True)
    ledger_items.write_skipped(folder, left)
    assert ledger_items.read_skipped(tmp_path) == sorted(left)
    assert ledger_items.read_skipped(tmp_path / "other") == []


def row(**known: object) -> dict[str, object]:
    return dict.fromkeys(LEDGER.names) | known


TABLE = pa.Table.from_pylist(
    [
        row(source_path="/in/a.wav", dataset="c", start=0.0, end=2.0, outcome="dropped",
            stage="filter", reason="too_short", value=2.0, threshold=3.0),
        row(source_path="/in/b.wav", dataset="d", start=0.0, end=0.0, outcome="failed",
            stage="shard", reason="unreadable", detail="no [/en] audio"),
    ],
    schema=LEDGER,
)  # fmt: skip
LEFT = [Skipped("c", "/in/x.txt", "extension")]


def test_many_members_that_are_skipped_are_counted() -> None:
    [one] = ledger_items.rows([], [Skipped("c", "/in/x.tar/a.foo", "extension", "", 1_500)])
    assert one["detail"] == "and 1,499 more members of the archive"


@pytest.mark.parametrize(
    ("reason", "dataset", "expected"),
    [
        (None, None, ["/in/a.wav", "/in/b.wav", "/in/x.txt"]),
        ("too_short", None, ["/in/a.wav"]),
        ("filter.too_short", None, ["/in/a.wav"]),
        ("shard.too_short", None, []),
        ("shard.extension", None, ["/in/x.txt"]),
        (None, "c", ["/in/a.wav", "/in/x.txt"]),
        ("unreadable", "c", []),
    ],
)
def test_items_of_a_reason_and_a_dataset(
    reason: str | None, dataset: str | None, expected: list[str]
) -> None:
    found = [*ledger_items.rows(ledger_items.spans([TABLE]), LEFT, reason, dataset)]
    assert [each["source_path"] for each in found] == expected
    assert all({*ledger_items.COLUMNS} <= {*each} for each in found)


def test_items_as_csv() -> None:
    text = io.StringIO()
    ledger_items.write_csv(ledger_items.rows(ledger_items.spans([TABLE]), LEFT), text)
    rows = [*csv.DictReader(io.StringIO(text.getvalue()))]
    assert [r["reason"] for r in rows] == ["too_short", "unreadable", "extension"]
    assert rows[1]["detail"] == "no [/en] audio"
    assert rows[2] == dict.fromkeys(ledger_items.COLUMNS, "") | {
        "source_path": "/in/x.txt", "outcome": "left_aside", "stage": "shard",
        "reason": "extension",
    }  # fmt: skip


@pytest.mark.nightly
def test_a_name_that_the_locale_cannot_write(tmp_path: Path) -> None:
    """A list with other names in it would be wrong; the command says what to do."""
    corpus.make(tmp_path / "in", 1)
    out = tmp_path / "\U0001f3a7"
    corpus.run(corpus.job(tmp_path, out=out))
    command = [sys.executable, "-m", "uttermill.flows.cli", "list", str(out)]
    kept = {**os.environ, "PYTHONIOENCODING": "ascii"}
    done = subprocess.run(command, env=kept, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr == (
        "uttermill: this locale's encoding, ascii, cannot print a name; set PYTHONUTF8=1\n"
    )


def test_nothing_left_says_why(tmp_path: Path) -> None:
    for name in ("a.wav", "b.wav"):
        (tmp_path / "in").mkdir(exist_ok=True)
        (tmp_path / "in" / name).write_text("<html>not found</html>")
    with pytest.raises(NothingLeft) as caught:
        corpus.run(corpus.job(tmp_path, package={"max_failed_fraction": 1.0}))
    assert caught.value.reasons == {"shard.unreadable": {"items": 2, "seconds": 0.0}}
    assert str(caught.value).endswith("(2 shard.unreadable)")
    told = NothingLeft(caught.value.args[0], caught.value.reasons, {"extension": 3})
    again = pickle.loads(pickle.dumps(told))
    assert str(again).endswith("(2 shard.unreadable, 3 skipped as extension)")
    assert again.ignored == {"extension": 3}


def test_nothing_left_names_what_failed_and_what_each_source_was_taken_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """It said how many failed, and why a list's texts were not taken was told by `plan` alone."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.wav").write_text("<html>not found</html>")
    (tmp_path / "list.csv").write_text("Audio File,What they said\nin/a.wav,one two three\n")
    table = {"kind": "table", "path": str(tmp_path / "list.csv"), "name": "calls"}
    with pytest.raises(NothingLeft, match="repair") as caught:
        corpus.run(corpus.job(tmp_path, sources=[table], package={"max_failed_fraction": 1.0}))
    notes = pickle.loads(pickle.dumps(caught.value)).notes
    assert f"{tmp_path}/in/a.wav (shard.unreadable" in notes[0]
    assert any("'What they said' looks like a text and is not taken" in line for line in notes)
    assert "loosen" not in str(caught.value)


# The ledger of a run that goes on, or was killed: what waits is pending, and has not failed.

#: Stages whose checkpoints the run had not written, by shard of one or more recordings.
LACKING = ((), ("transcribe",), ("transcribe", "resample"), ("transcribe", "resample", "filter"))


@pytest.fixture
def out(tmp_path: Path) -> Path:
    """What a run left that was killed while its shards were at different stages."""
    for number in range(len(LACKING)):
        corpus.add(tmp_path / "in", 5, seed=number, name=f"r{number}.wav")
    (tmp_path / "in/page.wav").write_text("<html>not found</html>")
    source = {"kind": "folder", "path": str(tmp_path / "in"), "expect_broken": True}
    many = {"settle_seconds": 0, "hours": 1 / 3600}
    prepared(written(tmp_path, sources=[source], shard=many))
    out = tmp_path / "out"
    shards = sorted(folder.name for folder in (out / "manifests/filter").iterdir())
    assert len(shards) == len(LACKING)
    for shard, stages in zip(shards, LACKING, strict=True):
        for stage in stages:
            shutil.rmtree(out / "manifests" / stage / shard)
    (run_folder.newest(out) / run_folder.SUMMARY).unlink()
    return out


@pytest.mark.nightly
def test_what_waits_is_pending(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer = told(capsys, "ledger", str(out))
    assert answer["dataset"] is None
    assert answer["recordings"] == {"in": 5, "failed": 1}, "only the page failed"
    assert answer["utterances"] == {"in": 3, "packaged": 1, "dropped": 0, "failed": 0, "pending": 2}
    seconds: dict[str, float] = answer["seconds"]
    assert seconds["failed"] == 0
    assert seconds["pending"] == pytest.approx(2 * corpus.seconds_of(5))
    parts = {name: value for name, value in seconds.items() if name not in ("in", "overlap")}
    assert sum(parts.values()) == pytest.approx(seconds["in"])
    assert answer["reasons"].keys() == {
        "filter.pending", "resample.pending", "transcribe.pending", "shard.unreadable",
    }  # fmt: skip
    outcomes = {(row["stage"], row["outcome"]) for row in answer["by_stage"]}
    assert ("transcribe", "pending") in outcomes
    assert "no run has come to it yet" in answer["meanings"]["pending"]
    rows: list[dict[str, Any]] = told(capsys, "ledger", str(out), "--reason", "pending")["items"]
    assert {row["stage"] for row in rows} == {"filter", "resample", "transcribe"}


def test_what_waits_in_part_is_not_named_as_broken() -> None:
    """Its other part failed, but the next run may still package the rest of it."""
    row = {"source_path": "a.wav", "stage": "filter", "reason": "x", "detail": None}
    outcomes = {"a": ("failed", "pending"), "b": ("failed",)}
    rows = [{**row, "recording": r, "outcome": o} for r, some in outcomes.items() for o in some]
    found = broken.of_ledger(pa.Table.from_pylist(rows))
    assert len(found) == 1, "as `recordings.failed` counts them"


@pytest.mark.nightly
def test_only_what_the_newest_version_holds_is_called_packaged(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`--items` of a refused run called clips packaged that no version holds."""
    source, out = tmp_path / "in", str(tmp_path / "out")
    for number in range(5):
        corpus.add(source, 5 + number, name=f"r{number}.wav")
    path = written(tmp_path)

    def items() -> dict[str, tuple[str, str, str | None]]:
        rows = told(capsys, "ledger", out, "--items")["items"]
        return {
            Path(row["source_path"]).stem: (row["outcome"], row["reason"], row["detail"])
            for row in rows
        }

    prepared(path)
    shutil.rmtree(tmp_path / "out/datasets")
    (run_folder.newest(tmp_path / "out") / run_folder.SUMMARY).unlink()
    waits = ("pending", "not_published", None)
    assert items() == {f"r{number}": waits for number in range(5)}
    answer = told(capsys, "ledger", out)
    assert answer["utterances"] == {"in": 5, "packaged": 0, "dropped": 0, "failed": 0, "pending": 5}
    assert (
        answer["meanings"]["not_published"] == "it is to be packaged, but no version holds it yet"
    )
    prepared(path)
    assert {outcome for outcome, _, _ in items().values()} == {"packaged"}

    (source / "r0.wav").unlink()
    corpus.add(source, 5, seed=7, name="r7.wav")
    with pytest.raises(RunError, match="max_removed_fraction"):
        prepared(path, "filter.filters.duration.max=2.1")
    assert items() == {
        "r0": ("packaged", "packaged", "v0001 holds it, and the next version would not"),
        **{f"r{number}": ("packaged", "packaged", None) for number in (1, 2, 3)},
        "r4": ("dropped", "too_long", "v0001 still holds it"),
        "r7": waits,
    }
