"""Files of the same bytes: one is processed, and the ledger names the others."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.tasks import pipeline
from uttermill.tasks.base.schema import LedgerRow
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.runs.executor import Here
from uttermill.tasks.settings.job import Job
from uttermill.tasks.stages.listing.copies import former, mark


def ledger(job: Job) -> list[LedgerRow]:
    newest = max((job.out / "datasets").glob("v*"))
    rows: list[LedgerRow] = pq.read_table(newest / "ledger.parquet").to_pylist()
    return rows


def outcomes(job: Job) -> dict[str, tuple[str, str | None]]:
    """By file: outcome, and the recording that it equals."""
    return {
        Path(r["source_path"]).name: (r["outcome"], r["detail"])
        for r in ledger(job)
        if r["reason"] != "source_removed"
    }


def same_as(folder: Path, name: str) -> tuple[str, str]:
    return "dropped", f"the same bytes as {folder / name}"


def copied(folder: Path, number: int, *names: str) -> None:
    for name in names:
        shutil.copy(folder / f"r{number:02d}.wav", folder / name)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return corpus.make(tmp_path / "in", 4)


def test_one_of_equal_files_is_processed_and_the_ledger_names_it(
    tmp_path: Path, folder: Path
) -> None:
    copied(folder, 1, "z.wav", "sub.wav")
    job = corpus.job(tmp_path)
    result, work = corpus.run(job)
    assert outcomes(job)["z.wav"] == outcomes(job)["sub.wav"] == same_as(folder, "r01.wav")
    assert result.summary["reasons"]["filter.duplicate"] == {"items": 2, "seconds": 1.2}
    seconds = result.summary["seconds"]
    assert seconds["in"] == seconds["packaged"] + seconds["dropped"] == pytest.approx(4.0)
    assert result.summary["recordings"] == {"in": 6, "failed": 0}
    assert work["filter"] == (4, 0)
    assert corpus.run(job)[1]["filter"] == (0, 4)


def test_a_further_copy_changes_nothing(tmp_path: Path, folder: Path) -> None:
    job = corpus.job(tmp_path)
    corpus.run(job)
    copied(folder, 1, "a.wav", "b.wav")  # before the original in order
    assert corpus.run(job)[1]["filter"] == (0, 4)
    assert outcomes(job)["r01.wav"][0] == "packaged"
    assert outcomes(job)["a.wav"] == outcomes(job)["b.wav"] == same_as(folder, "r01.wav")


@pytest.mark.nightly
def test_a_copy_takes_the_place_of_its_original(tmp_path: Path, folder: Path) -> None:
    copied(folder, 1, "z.wav", "y.wav")
    job = corpus.job(tmp_path, package={"max_removed_fraction": 1})
    corpus.run(job)
    (folder / "r01.wav").unlink()
    work = corpus.run(job)[1]
    assert outcomes(job)["y.wav"][0] == "packaged"
    assert outcomes(job)["z.wav"] == same_as(folder, "y.wav")
    assert work["filter"][0] == 0, "its samples are known"
    copied(folder, 2, "unrelated.wav")
    shutil.copy(folder / "y.wav", folder / "r01.wav")  # back again, it is the copy now
    corpus.run(job)
    assert outcomes(job)["y.wav"][0] == "packaged"
    assert outcomes(job)["r01.wav"] == same_as(folder, "y.wav")


def test_a_setting_turns_it_off(tmp_path: Path, folder: Path) -> None:
    copied(folder, 1, "z.wav")
    corpus.run(corpus.job(tmp_path))
    job = corpus.job(tmp_path, filter={"duplicate_files": "keep"})
    corpus.run(job)
    assert outcomes(job)["z.wav"][0] == "packaged"


@pytest.mark.nightly
def test_an_out_of_before_keeps_both(tmp_path: Path, folder: Path) -> None:
    copied(folder, 1, "z.wav")
    kept = corpus.job(tmp_path, filter={"duplicate_files": "keep"})
    corpus.run(kept)
    job = corpus.job(tmp_path)
    corpus.add(folder, 7)
    corpus.run(job)
    assert {outcome for outcome, _ in outcomes(job).values()} == {"packaged"}
    for path in folder.iterdir():
        path.touch()
    assert corpus.run(job)[1]["filter"][0] == 0
    assert {outcome for outcome, _ in outcomes(job).values()} == {"packaged"}


def test_what_says_something_else_of_the_same_bytes_is_no_copy(tmp_path: Path) -> None:
    folder = corpus.make(tmp_path / "in", 3)
    copied(folder, 1, "z.wav", "silent.wav")
    rows = [
        {"wav": str(folder / "r01.wav"), "key": "a", "txt": "one text"},
        {"wav": str(folder / "z.wav"), "key": "b", "txt": "another text"},
        {"wav": str(folder / "silent.wav"), "key": "c"},
    ]
    (tmp_path / "l.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    source = {"kind": "jsonl", "path": str(tmp_path / "l.jsonl"), "name": "c"}
    job = corpus.job(tmp_path, sources=[source])
    corpus.run(job)
    told = outcomes(job)
    assert told["r01.wav"][0] == told["z.wav"][0] == "packaged"
    assert told["silent.wav"] == same_as(folder, "r01.wav")


@pytest.mark.full
def test_copies_in_another_source_count_where_sources_are_chosen(tmp_path: Path) -> None:
    folder = corpus.make(tmp_path / "in", 2)
    shutil.copytree(folder, tmp_path / "more")
    sources = [
        {"kind": "folder", "path": str(tmp_path / name), "name": name} for name in ("in", "more")
    ]
    job = corpus.job(tmp_path, sources=sources)
    corpus.run(job)
    assert sorted(r["outcome"] for r in ledger(job)) == ["dropped", "dropped", *["packaged"] * 2]
    job = corpus.job(tmp_path, sources=sources, package={"only": {"dataset": ["more"]}})
    corpus.run(job)
    assert {r["dataset"] for r in ledger(job) if r["outcome"] == "packaged"} == {"more"}


def row(name: str, content: str = "x", **more: Any) -> Any:
    nothing = dict.fromkeys(("text", "speaker", "language", "segments", "error_code"))
    place = {"locator": '{"path": "/a"}', "header_channels": 1, "format": "WAV"}
    place |= {"present": True}
    return {"recording": name, "content": content, **place, **nothing, **more}


def marks(rows: list[Any], before: list[Any] = ()) -> dict[str, str]:  # type: ignore[assignment]
    mark(rows, former(before))
    return {r["recording"]: r["copy_of"] for r in rows if r["copy_of"]}


def test_marks_do_not_depend_on_the_order() -> None:
    names = ["b", "a", "c"]
    for order in (names, names[::-1]):
        assert marks([row(name) for name in order]) == {"b": "a", "c": "a"}
    spans = [{"start": 0.0, "end": 1.0}], [{"start": 1.0, "end": 2.0}]
    assert marks([row("a", segments=spans[0]), row("b", segments=spans[1]), row("c")]) == {}
    assert marks([row("a"), row("b", text="words")]) == {"a": "b"}
    assert marks([row("a"), row("b", present=False), row("c", error_code="decode_error")]) == {}


def test_what_has_come_back_is_a_copy_of_what_took_its_place_alone() -> None:
    away = [row("a", present=False), row("b", present=False)]
    assert marks([row("a"), row("b")], away) == {}, "both were kept"
    assert marks([row("a"), row("b")], [row("a", present=False), row("b")]) == {"a": "b"}


@pytest.mark.nightly
def test_plan_and_run_say_so(tmp_path: Path, folder: Path) -> None:
    copied(folder, 1, "z.wav")
    job = corpus.job(tmp_path)
    says = (
        "1 new recording has the bytes of another and is not processed again (filter.duplicate), "
        f"such as {folder}/z.wav, which equals {folder}/r01.wav; filter.duplicate_files: keep does"
    )
    planned = planning.plan(job, None)
    assert says in planned.stated
    assert planned.stages["filter"].compute == 4
    assert says in stated(job)
    corpus.run(job)
    assert not stated(job), "it was said"
    copied(folder, 2, "y.wav")
    planned = planning.plan(job, job)
    assert [says.replace("z.wav", "y.wav").replace("r01", "r02")] == planned.stated
    assert planned.stages["filter"].compute == 0


@pytest.mark.nightly
def test_plan_takes_no_file_for_a_copy_of_one_that_is_gone(tmp_path: Path, folder: Path) -> None:
    """As one that was renamed is."""
    job = corpus.job(tmp_path)
    corpus.run(job)
    (folder / "r01.wav").rename(folder / "z.wav")
    assert planning.plan(job, job).stated == stated(job) == []


def stated(job: Job) -> list[str]:
    with tempfile.TemporaryDirectory() as home:
        return pipeline.run_shard_stage(job, Here(), Path(home)).stated


def test_other_labels_are_no_copy() -> None:
    happy, sad = (row(name, labels=[("emotion", name)]) for name in ("happy", "sad"))
    assert marks([happy, sad, row("silent")]) == {"silent": "happy"}
