"""Files of the same bytes: one is processed, and the ledger names the others."""

import logging
import os
import shutil
import tempfile
from pathlib import Path
from typing import Any, cast

import pytest

from tests.cli.test_show import said
from tests.helpers import corpus
from uttermill.flows import checks, settings
from uttermill.flows.cli.show import runs as shown
from uttermill.flows.run import plans
from uttermill.tasks import pipeline
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.base.schema import LedgerRow
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.settings.job import Job
from uttermill.tasks.stages.listing.copies import former, mark


def ledger(job: Job) -> list[LedgerRow]:
    newest = max((job.out / "datasets").glob("v*"))
    rows: Any = corpus.ledger(newest)
    return cast(list[LedgerRow], rows)


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
    corpus.jsonl(tmp_path / "l.jsonl", rows)
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
    place |= {"present": True, "source_path": f"/a/{name}"}
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
        return pipeline.run_shard_stage(job, Executor(), Path(home)).stated


def test_other_labels_are_no_copy() -> None:
    happy, sad = (row(name, labels=[("emotion", name)]) for name in ("happy", "sad"))
    assert marks([happy, sad, row("silent")]) == {"silent": "happy"}


# Recordings that two sources list: the same source twice is refused, shared files are named.


FAKE = {"backend": {"use": "fake"}}


def folder_source(path: Path, name: str, **more: Any) -> dict[str, Any]:
    return {"kind": "folder", "path": str(path), "name": name, **more}


def listed(path: Path, name: str, rows: list[dict[str, Any]]) -> dict[str, Any]:
    corpus.jsonl(path, rows)
    return {"kind": "jsonl", "path": str(path), "name": name}


def job(tmp: Path, *sources: dict[str, Any], **changes: Any) -> Job:
    return corpus.job(tmp, sources=sources, **changes)


def found(tmp: Path, *sources: dict[str, Any]) -> list[tuple[str, str, int]]:
    return [(s.first, s.second, s.recordings) for s in corpus.surveyed(job(tmp, *sources)).shared]


def chosen(tmp: Path, *sources: dict[str, Any]) -> settings.PrepareSettings:
    data = {"sources": sources, "out": str(tmp / "out"), "transcribe": FAKE,
            "shard": {"settle_seconds": 0}}  # fmt: skip
    return settings.parse(data)


def test_the_same_source_twice_is_refused(tmp_path: Path) -> None:
    """All of its clips were packaged twice."""
    corpus.make(tmp_path / "in", 2)
    (tmp_path / "link").symlink_to(tmp_path / "in")
    again = (tmp_path / "in", tmp_path / "in/", tmp_path / "link")
    for path in again:
        two = (
            folder_source(tmp_path / "in", "a"),
            folder_source(path, "b", language="de", expect_broken=True),
        )
        with pytest.raises(ConfigError) as caught:
            checks.check(chosen(tmp_path, *two))
        assert str(caught.value) == (
            f"the sources 'a' and 'b' are the same, {tmp_path}/in: each of its recordings would be "
            "packaged twice; name it once"
        )
    sets = ["transcribe.backend.use=fake"]
    twice = settings.read(None, [str(tmp_path / "in")] * 2, str(tmp_path / "out"), sets)
    with pytest.raises(ConfigError, match="'in' and 'in-2' are the same"):
        checks.check(twice)
    # Another column of a list, or another kind of source, may be other recordings.
    rows = [{"a": "in/r00.wav", "b": "in/r01.wav"}]
    first = listed(tmp_path / "list.jsonl", "a", rows) | {"columns": {"audio": "a"}}
    second = {**first, "name": "b", "columns": {"audio": "b"}}
    checks.check(chosen(tmp_path, first, second))
    assert found(tmp_path, first, second) == []


def test_recordings_in_two_sources_are_found(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    corpus.make(tmp_path / "in/deep", 2)
    corpus.make(tmp_path / "other", 3)  # copies: other files
    whole = folder_source(tmp_path / "in", "a")
    assert found(tmp_path, whole, folder_source(tmp_path / "other", "b")) == []
    assert found(tmp_path, whole) == []
    assert found(tmp_path, whole, folder_source(tmp_path / "in/deep", "b")) == [("a", "b", 2)]
    assert found(tmp_path, folder_source(tmp_path / "in/deep", "b"), whole) == [("b", "a", 2)]
    os.link(tmp_path / "in/r00.wav", tmp_path / "other/linked.wav")
    (tmp_path / "other/soft.wav").symlink_to(tmp_path / "in/r01.wav")
    linked = folder_source(tmp_path / "other", "b", follow_links=True)
    assert found(tmp_path, whole, linked) == [("a", "b", 2)]
    gone = listed(tmp_path / "gone.jsonl", "c", [{"wav": "gone.wav", "key": "k", "txt": "t"}])
    again = listed(tmp_path / "again.jsonl", "d", [{"wav": "gone.wav", "key": "k", "txt": "t"}])
    assert found(tmp_path, gone, again) == []  # files that are not there share nothing


def test_segments_are_shared_only_if_they_are_equal(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 2)

    def cut(name: str, *spans: tuple[float, float], file: str = "r01.wav") -> dict[str, Any]:
        rows = [{"wav": f"in/{file}", "txt": "t", "key": f"{a}", "start": a, "end": b}
                for a, b in spans]  # fmt: skip
        return listed(tmp_path / f"{name}.jsonl", name, rows)

    train, dev = cut("train", (0, 0.2)), cut("dev", (0.2, 0.4), (0.4, 0.5))
    assert found(tmp_path, train, dev) == []
    assert found(tmp_path, train, dev, cut("more", (0.4, 0.5))) == [("dev", "more", 1)]
    assert found(tmp_path, train, cut("other", (0, 0.2), file="r00.wav")) == []
    assert found(tmp_path, train, folder_source(tmp_path / "in", "all")) == [("train", "all", 1)]
    assert found(tmp_path, folder_source(tmp_path / "in", "all"), train) == [("all", "train", 1)]


@pytest.mark.full
@pytest.mark.usefixtures("one_process")
def test_plan_and_run_name_them(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    corpus.make(tmp_path / "in/deep", 2)
    two = folder_source(tmp_path / "in", "a"), folder_source(tmp_path / "in/deep", "b")
    says = (
        f"2 recordings of the source 'b' are in the source 'a', too, such as {tmp_path}/in/deep/"
        "r00.wav: what is new is processed once (filter.duplicate), unless they state other texts, "
        "speakers, languages or spans; the filter duplicate keeps one copy of each clip"
    )
    plan = plans.make(chosen(tmp_path, *two))
    assert [each["says"] for each in plan["shared"]] == [says]
    assert f"{says}." in " ".join(said(shown.plan, plan).split())
    assert "shared" not in plans.make(chosen(tmp_path, two[0]))
    with caplog.at_level(logging.WARNING, "uttermill"):
        published, _ = corpus.run(job(tmp_path, *two))
    assert caplog.messages == [says]
    assert published.summary["utterances"]["packaged"] == 2
    caplog.clear()
    keep = {**corpus.filters(), "duplicate_files": "keep"}
    with caplog.at_level(logging.WARNING, "uttermill"):
        published, _ = corpus.run(job(tmp_path, *two, filter=keep))
    assert ": their audio is packaged twice; take them out" in caplog.messages[0]
    assert published.summary["utterances"]["packaged"] == 4
    caplog.clear()
    once = corpus.filters({"use": "duplicate"})
    with caplog.at_level(logging.WARNING, "uttermill"):
        published, _ = corpus.run(job(tmp_path, *two, filter=once))
    assert caplog.messages[0].endswith(": the filter duplicate keeps one copy of each clip")
    assert published.summary["utterances"]["packaged"] == 2
