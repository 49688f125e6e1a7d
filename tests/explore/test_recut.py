"""Clips that a person cut again: new boundaries, samples and text; everything else as it was."""

import json
import shutil
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import soundfile

from tests.helpers import corpus
from tests.helpers.deciding import WHEN
from uttermill.tasks import storage
from uttermill.tasks.base.errors import ConfigError
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import decision_log
from uttermill.tasks.storage import versions

PACKAGE = {"formats": ["wenet_raw"]}


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("recut")
    corpus.make(home / "in", 6)
    corpus.run(corpus.job(home, package=PACKAGE))
    return home


@pytest.fixture
def job(made: Path, tmp_path: Path) -> Job:
    """Of a copy of an OUT with a version."""
    shutil.copytree(made / "out", tmp_path / "out", symlinks=True)
    return corpus.job(made, out=tmp_path / "out", package=PACKAGE)


def rows(job: Job, table: str) -> dict[str, list[dict[str, Any]]]:
    """Rows of a table of the newest version, by the recording's stem, by start."""
    newest = versions.newest(job.out)
    assert newest is not None
    by_stem: dict[str, list[dict[str, Any]]] = {}
    for row in pq.read_table(newest / table).to_pylist():
        by_stem.setdefault(Path(row["recording"]).stem, []).append(row)
    return {stem: sorted(some, key=lambda row: row["start"]) for stem, some in by_stem.items()}


def recut(job: Job, name: str, start: float, end: float, **more: str) -> None:
    [clip] = rows(job, "utterances.parquet")[name]
    asked = {"id": clip["id"], "decision": "recut", "start": start, "end": end, **more}
    decision_log.append(job.out, [decision_log.checked(asked, WHEN)])


def published(job: Job) -> Path:
    newest = versions.newest(job.out)
    assert newest is not None
    assert verify(newest) == []
    return newest


def test_a_clip_is_cut_again_alone(job: Job) -> None:
    before = rows(job, "utterances.parquet")
    recut(job, "r05", 0.2, 1.05, who="ada", note="a click at the end")
    result, counts = corpus.run(job)
    assert result.new
    assert [counts[stage][0] for stage in ("filter", "resample", "transcribe")] == [1, 1, 1]
    after = rows(job, "utterances.parquet")
    [clip] = after.pop("r05")
    [old] = before.pop("r05")
    assert (clip["start"], clip["end"]) == (0.2, 1.05)
    assert clip["id"] != old["id"]
    assert {k: v[0]["id"] for k, v in after.items()} == {k: v[0]["id"] for k, v in before.items()}
    version = published(job)
    [path] = version.glob(f"wenet_raw/**/{clip['id']}.wav")
    assert soundfile.info(path).frames == clip["num_samples"] == round(0.85 * clip["sample_rate"])
    spans = rows(job, "ledger.parquet")["r05"]
    left = next(row for row in spans if row["reason"] == "cut_by_person")
    kept = next(row for row in spans if row["outcome"] == "packaged")
    assert left["outcome"] == "unsegmented"
    assert left["seconds"] + kept["seconds"] == pytest.approx(old["end"] - old["start"])
    assert kept["detail"] == "cut again by ada: a click at the end"
    facts = json.loads((version / "dataset.json").read_text())
    assert facts["reviews"]["recut"] == 1
    assert "1 were cut again by people" in (version / "README.md").read_text()
    again, counts = corpus.run(job)
    assert not again.new
    assert all(computed == 0 for computed, _ in counts.values())


def test_a_clip_is_cut_again_and_again_and_comes_back(job: Job) -> None:
    [old] = rows(job, "utterances.parquet")["r05"]
    recut(job, "r05", 0.2, 1.05)
    corpus.run(job)
    recut(job, "r05", old["start"], old["end"])
    _, counts = corpus.run(job)
    assert counts["transcribe"][0] == 0, "its text is known"
    [clip] = rows(job, "utterances.parquet")["r05"]
    assert clip["id"] == old["id"]


def test_an_undone_decision_leaves_the_clip(job: Job) -> None:
    [old] = rows(job, "utterances.parquet")["r05"]
    recut(job, "r05", 0.2, 1.05)
    undo = decision_log.checked({"id": old["id"], "decision": "undo"}, WHEN)
    decision_log.append(job.out, [undo])
    assert not corpus.run(job)[0].new


def test_rules_judge_the_new_clip_unless_its_text_was_written(made: Path, tmp_path: Path) -> None:
    strict = corpus.job(made, out=tmp_path / "out", filter=corpus.filters(min=0.7))
    corpus.run(strict)
    recut(strict, "r05", 0.2, 0.5)
    recut(strict, "r04", 0.2, 0.5, text="the right words")
    corpus.run(strict)
    [dropped] = [r for r in rows(strict, "ledger.parquet")["r05"] if r["utterance"]]
    assert dropped["reason"] == "too_short"
    [kept] = rows(strict, "utterances.parquet")["r04"]
    assert (kept["text"], kept["start"], kept["end"]) == ("the right words", 0.2, 0.5)
    published(strict)


@pytest.mark.full
def test_boundaries_beyond_the_recording_end_with_it(job: Job) -> None:
    [old] = rows(job, "utterances.parquet")["r05"]
    recut(job, "r05", 0.2, 99.0)
    recut(job, "r04", 50.0, 99.0)
    corpus.run(job)
    [clip] = rows(job, "utterances.parquet")["r05"]
    assert clip["end"] == old["end"]
    [same] = rows(job, "utterances.parquet")["r04"]
    assert same["start"] == 0, "there is nothing to cut"
    published(job)


@pytest.mark.nightly
def test_lost_checkpoints_are_made_again_with_the_new_boundaries(job: Job) -> None:
    recut(job, "r05", 0.2, 1.05)
    corpus.run(job)
    before = corpus.content(published(job))
    for stage in ("filter", "resample", "transcribe"):
        for part in (job.out / "manifests" / stage).glob("*/*.parquet"):
            storage.remove(part)
    corpus.run(job)
    assert corpus.content(published(job)) == before


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ({}, "recut needs start and end"),
        ({"start": 1.0}, "recut needs start and end"),
        ({"start": 1.0, "end": 1.05}, "0.1 s apart"),
        ({"start": 2.0, "end": 1.0}, "0.1 s apart"),
        ({"start": -1.0, "end": 1.0}, "start must be a number of seconds"),
        ({"start": "1", "end": 2.0}, "start must be a number of seconds"),
        ({"start": True, "end": 2.0}, "start must be a number of seconds"),
        ({"start": 0.0, "end": float("nan")}, "end must be a number of seconds"),
        ({"start": 0.0, "end": float("inf")}, "end must be a number of seconds"),
        ({"decision": "keep", "start": 0.0, "end": 1.0}, "belong to the decision recut"),
    ],
)
def test_boundaries_that_are_none_are_refused(more: dict[str, Any], says: str) -> None:
    with pytest.raises(ConfigError, match=says):
        decision_log.checked({"id": "a", "decision": "recut", **more}, WHEN)


def test_a_stored_decision_is_read_back(tmp_path: Path) -> None:
    asked = {"id": "a", "decision": "recut", "start": 0.0, "end": 1.5, "text": "words"}
    decision = decision_log.checked(asked, WHEN)
    decision_log.append(tmp_path, [decision])
    assert [*decision_log.read(decision_log.stored(tmp_path))] == [decision]


def test_a_moved_clip_says_that_it_has_lost_the_recordings_text(tmp_path: Path) -> None:
    """Without a recogniser nothing else gives it one; a person can."""
    corpus.make(tmp_path / "in", 6)
    texts = corpus.listed(tmp_path / "in", 6, tmp_path / "data.list")
    source = {"kind": "jsonl", "path": str(texts), "name": "c"}
    silent = corpus.job(
        tmp_path, sources=[source], transcribe={"backend": {"use": "none"}, "verdicts": []}
    )
    corpus.run(silent)
    recut(silent, "r05", 0.2, 1.05, who="ada")
    recut(silent, "r04", 0.2, 1.05, who="ada", text="the right words")
    corpus.run(silent)
    ledger = rows(silent, "ledger.parquet")
    [moved] = [row for row in ledger["r05"] if row["utterance"]]
    assert moved["detail"] == (
        "cut again by ada; the text of the recording is not that of this part: write one"
    )
    [written] = [row for row in ledger["r04"] if row["utterance"]]
    assert written["detail"] == "cut again by ada"


def test_a_moved_clip_keeps_the_words_that_are_said_in_it(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 6)
    words = [["one", 0.0, 0.4], ["two", 0.4, 0.4], ["three", 0.8, 0.4]]  # start, length
    row = {"wav": str(tmp_path / "in" / "r05.wav"), "txt": "One, two; three.", "words": words}
    (tmp_path / "data.jsonl").write_text(json.dumps({**row, "start": 0.0, "end": 1.4}))
    columns = {"audio": "wav", "text": "txt", "start": "start", "end": "end", "words": "words"}
    timed = corpus.job(
        tmp_path,
        sources=[
            {"kind": "jsonl", "path": str(tmp_path / "data.jsonl"), "name": "c"}
            | {"columns": columns}
        ],
        filter={"segmenter": {"use": "given"}, "filters": []},
        transcribe={"backend": {"use": "none"}},
    )
    corpus.run(timed)
    recut(timed, "r05", 0.3, 1.0)
    corpus.run(timed)
    [clip] = rows(timed, "utterances.parquet")["r05"]
    assert (clip["start"], clip["end"], clip["text"]) == (0.3, 1.0, "two;")
