"""Decisions by people: appended, applied last, and computing only what a newly kept clip lacks."""

import json
import multiprocessing
import shutil
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.helpers.deciding import WHEN, drop_some
from tests.helpers.s3_server import BUCKET, S3
from uttermill.flows import cli
from uttermill.tasks import storage
from uttermill.tasks.accounting import summary
from uttermill.tasks.base.environment import setting
from uttermill.tasks.base.errors import ConfigError, RunError
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import decision_log, manifest
from uttermill.tasks.shard_store.decision_log import Decision
from uttermill.tasks.shard_store.shard_view import ShardView
from uttermill.tasks.storage import tables, versions
from uttermill.tasks.storage.objects import Objects


@pytest.fixture
def tmp(tmp_path: Path) -> Path:
    corpus.make(tmp_path / "in", 6)
    return tmp_path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("review")
    corpus.make(home / "in", 6)
    corpus.run(strict(home))
    return home


@pytest.fixture
def job(made: Path, tmp_path: Path) -> Job:
    """Strict, of a copy of an OUT with a version."""
    shutil.copytree(made / "out", tmp_path / "out", symlinks=True)
    return strict(made, out=tmp_path / "out")


def strict(tmp: Path, **changes: Any) -> Job:
    """A job that drops r00 (0.4 s) and r01 (0.6 s) as too short."""
    return corpus.job(tmp, filter=corpus.filters(min=0.7), **changes)


def ledger(job: Job) -> dict[str, dict[str, Any]]:
    """Rows of the newest version's ledger, by the recording's stem."""
    newest = versions.newest(job.out)
    assert newest is not None
    rows = corpus.ledger(newest)
    return {Path(row["recording"]).stem: row for row in rows}


def texts(job: Job) -> dict[str, tuple[str, str]]:
    newest = versions.newest(job.out)
    assert newest is not None
    rows = corpus.utterances(newest)
    return {Path(row["recording"]).stem: (row["text"], row["text_source"]) for row in rows}


def decide(job: Job, name: str, decision: str, **more: Any) -> None:
    key = ledger(job)[name]["utterance"]
    decision_log.append(job.out, [Decision(key, decision, when=WHEN, **more)])


def test_keep_drop_and_retext(job: Job) -> None:
    assert {n for n, row in ledger(job).items() if row["outcome"] == "dropped"} == {"r00", "r01"}
    decide(job, "r00", "keep", who="ada", note="a short word")
    decide(job, "r03", "drop", who="ada", note="laughter")
    decide(job, "r04", "retext", text="the right  words", who="bob")
    published, counts = corpus.run(job)
    assert published.new
    # Only what the newly kept clip lacks: its PCM and its transcript.
    assert counts["filter"][0] == 0
    assert counts["resample"] == (1, 4)
    assert counts["transcribe"] == (1, 4)
    rows = ledger(job)
    assert rows["r00"]["outcome"] == "packaged"
    assert rows["r00"]["detail"] == "kept by ada: a short word"
    dropped = {name: rows["r03"][name] for name in ("outcome", "stage", "reason", "detail")}
    assert dropped == {"outcome": "dropped", "stage": "package", "reason": "person",
                       "detail": "dropped by ada: laughter"}  # fmt: skip
    assert rows["r01"]["reason"] == "too_short", "others stay as they were"
    assert texts(job)["r04"] == ("the right words", "reference")
    newest = versions.newest(job.out)
    assert newest is not None
    assert verify(newest) == []
    facts = versions.described(newest)
    assert facts["reviews"]["keep"] == facts["reviews"]["drop"] == facts["reviews"]["retext"] == 1
    assert "package.person" in facts["reasons"]
    assert "People decided on 3 utterances" in (newest / "README.md").read_text()
    whole = b"".join(corpus.content(newest).values())
    assert WHEN.encode() not in whole, "the clock stays out of versions"
    table = pq.read_table(newest / "ledger.parquet")
    assert summary.of_ledger(table)["seconds"]["in"] == pytest.approx(
        0.4 + 0.6 + 0.8 + 1 + 1.2 + 1.4
    )
    again, counts = corpus.run(job)
    assert not again.new
    assert all(computed == 0 for computed, _ in counts.values())


def test_decisions_damage_nothing_and_are_missed_if_they_are_gone(
    job: Job, caplog: pytest.LogCaptureFixture
) -> None:
    """After each decision a file of facts counted as damaged; a lost file of decisions was
    silent."""
    decide(job, "r03", "drop")
    corpus.run(job)
    decide(job, "r03", "undo")
    decide(job, "r04", "drop")
    corpus.run(job)
    assert caplog.text == ""
    decision_log.path(job.out).unlink()
    corpus.run(job)
    [record] = caplog.records
    assert "has decisions by people on 0 utterances, and v0003 was made with 1" in record.message
    assert ledger(job)["r04"]["outcome"] == "packaged"


@pytest.mark.full
def test_the_last_counts_and_the_earlier_stays(job: Job) -> None:
    decide(job, "r00", "keep")
    decide(job, "r00", "drop")
    decide(job, "r02", "drop")
    decide(job, "r02", "undo")
    corpus.run(job)
    assert ledger(job)["r00"]["reason"] == "too_short", "what no verdict keeps, none has to drop"
    assert ledger(job)["r02"]["outcome"] == "packaged"
    kept = decision_log.read(decision_log.stored(job.out))
    assert [each.decision for each in kept] == ["keep", "drop", "drop", "undo"]


@pytest.mark.nightly
def test_undo_gives_the_bytes_back(tmp: Path) -> None:
    job = strict(tmp)
    before, _ = corpus.run(job)
    then = corpus.content(before.path)
    decide(job, "r02", "drop")
    corpus.run(job)
    decide(job, "r02", "undo")
    after, counts = corpus.run(job)
    assert counts["transcribe"][0] == 0
    places = ["generation", "shard", "offset"]  # a clip that comes back is laid out anew
    rows = [
        pq.read_table(path / "utterances.parquet").drop_columns(places).sort_by("id")
        for path in (before.path, after.path)
    ]
    assert rows[0] == rows[1]
    assert then["ledger.parquet"] == corpus.content(after.path)["ledger.parquet"]


@pytest.mark.nightly
def test_it_survives_growth_thresholds_and_another_recogniser(tmp: Path) -> None:
    job = strict(tmp)
    corpus.run(job)
    decide(job, "r00", "keep")
    decide(job, "r03", "drop")
    decide(job, "r04", "retext", text="the right words")
    corpus.run(job)
    corpus.add(tmp / "in", 6)
    stricter = corpus.job(tmp, filter=corpus.filters(min=1.1),
                          transcribe={"backend": {"use": "fake", "seed": 7}})  # fmt: skip
    corpus.run(stricter)
    rows = ledger(stricter)
    assert rows["r00"]["outcome"] == "packaged"
    assert rows["r02"]["reason"] == "too_short"
    assert rows["r03"]["outcome"] == "dropped"
    assert rows["r06"]["outcome"] == "packaged"
    assert texts(stricter)["r04"] == ("the right words", "reference")


@pytest.mark.full
def test_corpus_wide_verdicts_spare_what_a_person_keeps(tmp: Path) -> None:
    (tmp / "in" / "copy.wav").write_bytes((tmp / "in" / "r05.wav").read_bytes())
    filters = {**corpus.filters({"use": "duplicate"}), "duplicate_files": "keep"}
    job = corpus.job(tmp, filter=filters)
    corpus.run(job)
    lost = next(n for n, row in ledger(job).items() if row["reason"].startswith("duplicate"))
    decide(job, lost, "keep")
    corpus.run(job)
    assert ledger(job)[lost]["outcome"] == "packaged"


def test_a_run_goes_by_what_it_began_with(job: Job) -> None:
    decide(job, "r00", "keep")
    begun = decision_log.pinned(job)
    decide(job, "r01", "keep")
    [shard] = manifest.shards(job.out)
    assert len(ShardView(begun, shard).people) == 1
    assert len(ShardView(job, shard).people) == 2
    path = decision_log.path(job.out)
    path.write_text(path.read_text().replace("keep", "drop"))
    with pytest.raises(RunError, match="other than by appending"):
        decision_log.by_utterance(begun)


def test_writers_at_once_lose_nothing(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    some = [
        spawn.Process(target=drop_some, args=(str(tmp_path), number, 100)) for number in range(2)
    ]
    for each in some:
        each.start()
    for each in some:
        each.join()
    assert len(decision_log.last(decision_log.read(decision_log.stored(tmp_path)))) == 200


@pytest.fixture
def bucket(s3: S3, request: pytest.FixtureRequest) -> Iterator[str]:
    with setting(s3.environment):
        yield f"s3://{BUCKET}/{request.node.name}"


@pytest.mark.nightly
def test_writers_at_once_lose_nothing_in_a_bucket(bucket: str) -> None:
    out = storage.place(bucket)
    decision_log.append(out, [Decision("first", "keep", when=WHEN)])
    before = decision_log.stored(out)
    spawn = multiprocessing.get_context("spawn")
    some = [spawn.Process(target=drop_some, args=(bucket, number, 12)) for number in range(3)]
    for each in some:
        each.start()
    for each in some:
        each.join()
    assert decision_log.stored(out).startswith(before), "what was read stays the beginning"
    found = [each.id for each in decision_log.read(decision_log.stored(out))]
    assert sorted(found) == sorted(
        ["first", *(f"u-{n}-{at}" for n in range(3) for at in range(12))]
    )
    for number in range(3):
        mine = [each for each in found if each.startswith(f"u-{number}-")]
        assert mine == [f"u-{number}-{at}" for at in range(12)], "each writer's in their order"


@pytest.mark.nightly
def test_a_run_in_a_bucket_applies_them(
    tmp: Path, bucket: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """Decisions come by import, and after a file that was copied there."""
    job = replace(strict(tmp), out=storage.place(bucket))
    corpus.run(job)
    newest = versions.newest(job.out)
    assert newest is not None
    rows = tables.read(newest / "ledger.parquet").to_pylist()
    keys = {Path(row["recording"]).stem: row["utterance"] for row in rows}
    storage.write_atomic(
        decision_log.path(job.out), decision_log.line(Decision(keys["r03"], "drop", when=WHEN))
    )
    storage.write_atomic(job.out / "runs" / "one" / "run.json", b"{}")  # as a run from the CLI
    fixes = tmp / "fixes.jsonl"
    fixes.write_text(json.dumps({"id": keys["r00"], "decision": "keep", "when": WHEN}) + "\n")
    assert cli.main(["review", "import", str(fixes), "--out", bucket, "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["imported"] == 1
    assert cli.main(["review", "export", bucket]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["id"]: line["decision"] for line in lines} == {
        keys["r00"]: "keep", keys["r03"]: "drop"}  # fmt: skip
    published, counts = corpus.run(job)
    assert published.new
    assert counts["transcribe"] == (1, 4)
    rows = tables.read(published.path / "ledger.parquet").to_pylist()
    reasons = {Path(row["recording"]).stem: row["reason"] for row in rows}
    assert (reasons["r00"], reasons["r03"]) == ("packaged", "person")


@pytest.mark.full
def test_a_store_that_lets_objects_be_written_over(
    bucket: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    put = Objects.put

    def over(self: Objects, path: Path, data: bytes, exclusive: bool = False) -> None:
        put(self, path, data)

    monkeypatch.setattr(Objects, "put", over)
    with pytest.raises(ConfigError, match="If-None-Match"):
        decision_log.append(storage.place(bucket), [Decision("a", "keep", when=WHEN)])
    assert decision_log.stored(storage.place(bucket)) == b""


def test_an_invalid_line_is_named(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A person's line with a wrong word was left out without one."""
    decision_log.append(tmp_path, [Decision("a", "keep", when=WHEN)])
    with decision_log.path(tmp_path).open("ab") as file:
        file.write(b'{"id": "b", "decision": "delete"}\n')
    for _ in range(2):
        assert [each.id for each in decision_log.of(tmp_path)] == ["a"]
    (said,) = caplog.messages
    assert "reviews.jsonl: 1 invalid line left out, first line 2: decision is 'delete'" in said


def test_a_line_that_a_crash_cut_short(tmp_path: Path) -> None:
    decision_log.append(tmp_path, [Decision("a", "keep", when=WHEN)])
    with decision_log.path(tmp_path).open("ab") as file:
        file.write(b'{"id": "b", "deci')
    assert [each.id for each in decision_log.read(decision_log.stored(tmp_path))] == ["a"]
    decision_log.append(tmp_path, [Decision("c", "drop", when=WHEN)])
    assert [each.id for each in decision_log.read(decision_log.stored(tmp_path))] == ["a", "c"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"decision": "keep"}, "names no utterance"),
        ({"id": "a"}, "use keep, drop, retext, recut, undo"),
        ({"id": "a", "decision": "maybe"}, "'maybe'"),
        ({"id": "a", "decision": "retext"}, "give a text"),
        ({"id": "a", "decision": "drop", "text": "x"}, "give a text"),
        ({"id": "a", "decision": "keep", "colour": "red"}, "unknown key 'colour'"),
        ({"id": 7, "decision": "keep"}, "id must be a text"),
        ({"id": "a", "decision": "keep", "note": "x" * 20_001}, "longer than"),
    ],
)
def test_what_is_no_decision(given: dict[str, Any], said: str) -> None:
    with pytest.raises(ConfigError, match=said):
        decision_log.checked(given, WHEN)


def test_import_and_export(tmp: Path, capsys: pytest.CaptureFixture[str]) -> None:
    job = strict(tmp)
    corpus.run(job)
    (job.out / "runs").mkdir(exist_ok=True)
    assert cli.main(["review", "export", str(job.out)]) == 0
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err == f"There are no decisions by people in {job.out}.\n"
    key = ledger(job)["r00"]["utterance"]
    fixes = tmp / "fixes.jsonl"
    fixes.write_text(
        json.dumps({"id": key, "decision": "keep", "who": "ada", "why": "fine", "when": WHEN})
        + "\n\n"
        + json.dumps({"id": "other", "text": "שלום", "when": WHEN})
        + "\n"
    )
    assert cli.main(["review", "import", str(fixes), "--out", str(job.out), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["imported"], told["unknown"]) == (2, ["other"])
    assert cli.main(["review", "import", str(job.out), str(fixes), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert (told["imported"], told["already_there"]) == (0, 2)
    assert cli.main(["review", "export", str(job.out)]) == 0
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert {line["id"]: line["decision"] for line in lines} == {key: "keep", "other": "retext"}
    fixes.write_text('{"id": "a", "decision": "keep"}\nnonsense\n')
    assert cli.main(["review", "import", str(fixes), "--out", str(job.out)]) == 2
    assert "line 2" in capsys.readouterr().err
    assert len(decision_log.read(decision_log.stored(job.out))) == 2, (
        "a file with a fault changes nothing"
    )
