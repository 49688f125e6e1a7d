"""Items that kill, eat or hang their process: exactly they are quarantined, the rest completes.

These items take a real process with them. A control shows what they do without isolation.
"""

import functools
import logging
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import pytest
import soundfile as sf

from tests.helpers import corpus, tiers
from uttermill.tasks import pipeline
from uttermill.tasks.base import environment, errors, memory_limits
from uttermill.tasks.base.errors import KILLED, KilledFromOutside, RunError
from uttermill.tasks.base.schema import AnyRow
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.shard_store.shard_view import ShardView
from uttermill.tasks.stages import contract, isolate, pcm, stage
from uttermill.tasks.stages.contract import OfRecording
from uttermill.tasks.storage import versions

SHARD = "shard-000000"
COUNT = 4
BAD = 2  # 0.8 s
MIB = 1 << 20
CODES = {"segv": "crashed", "memory": "out_of_memory", "hang": "timeout",
         "memory_error": "out_of_memory"}  # fmt: skip


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.make(tmp_path_factory.mktemp("isolate") / "in", COUNT).parent


def poisoned(source: Path, out: Path, where: str, how: str) -> Job:
    poison: dict[str, Any] = {"how": how, "seconds": corpus.seconds_of(BAD)}
    changes: dict[str, Any] = (
        {"filter": corpus.filters({"use": "tests.plugins.poison", **poison})}
        if where == "filter"
        else {"transcribe": {"backend": {"use": "tests.plugins.poison_asr", **poison}}}
    )
    timeout = 3.0 if how == "hang" else 200.0
    limit = 700 * MIB if how == "memory" else 8192 * MIB
    package = {"max_failed_fraction": 1.0}
    return corpus.job(
        source, out=out, item_timeout=timeout, memory_limit=limit, package=package, **changes
    )


def prepare(job: Job, until: str) -> None:
    """Run what comes before stage `until`."""
    versions.begin_layout(job.out, 0)
    pipeline.run_shard_stage(job, Executor(), job.out / "scratch")
    for name in stage.PER_SHARD[: stage.PER_SHARD.index(until)]:
        stage.run(name, job, SHARD)


def failures(job: Job, name: str) -> list[str | None]:
    rows = [row for part in manifest.read(job.out, name, SHARD) for row in part.table.to_pylist()]
    return [row["error_code"] for row in rows if row["error_code"]]


@pytest.mark.parametrize(("where", "how"), tiers.covering(["filter", "transcribe"], CODES))
@pytest.mark.nightly
def test_the_culprit_is_quarantined(
    source: Path, tmp_path: Path, where: str, how: str, caplog: pytest.LogCaptureFixture
) -> None:
    job = poisoned(source, tmp_path / "out", where, how)
    prepare(job, where)
    began = time.monotonic()
    with caplog.at_level(logging.WARNING, "uttermill"):
        done = stage.run(where, job, SHARD, isolate=True)
    assert time.monotonic() - began < 190, "a death is seen, and no deadline waited for"
    assert done.computed == COUNT
    assert failures(job, where) == [CODES[how]]
    if how != "memory_error" or where == "transcribe":  # the filter stage catches that itself
        assert f"is quarantined as {CODES[how]}" in caplog.text
    # The quarantine is stored: an ordinary run in this very process survives and publishes.
    published, counts = corpus.run(job)
    assert counts[where] == (0, COUNT)
    rows = corpus.ledger(published.path)
    bad = [r for r in rows if r["outcome"] == "failed"]
    assert [(r["recording"], r["stage"], r["reason"]) for r in bad] == [
        (f"c/r{BAD:02d}.wav", where, CODES[how])
    ]
    assert published.summary["utterances"]["packaged"] == COUNT - 1
    left = {"package"} if where == "transcribe" else {"resample", "transcribe", "package"}
    assert corpus.run(job)[1] == {n: (0, COUNT - (n in left)) for n in corpus.STAGES}


@pytest.mark.full
def test_an_added_filter_that_crashes(source: Path, tmp_path: Path) -> None:
    """The cuts are there; the crash is stored nevertheless, and forgotten with the filter."""
    quiet = corpus.job(source, out=tmp_path / "out")
    corpus.run(quiet)
    job = poisoned(source, tmp_path / "out", "filter", "segv")
    stage.run("filter", job, SHARD, isolate=True)
    assert failures(job, "filter") == ["crashed"]
    assert stage.pending("filter", job, SHARD) == (0, COUNT)
    published, _ = corpus.run(job)
    assert published.summary["utterances"]["packaged"] == COUNT - 1
    published, counts = corpus.run(quiet)
    assert published.summary["utterances"]["packaged"] == COUNT
    assert counts["filter"] == (0, COUNT)


@pytest.mark.parametrize(
    ("why", "words"),
    [
        ("a slow machine", "no result within"),
        tiers.full("no memory", "its process grew beyond"),
        tiers.full("a broken library", "its process ended with status 1"),
    ],
)
def test_a_process_that_does_not_begin_blames_no_item(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str, words: str
) -> None:
    """Before its first item it has done nothing with any; all were quarantined, one by one."""
    limit = 1 if why == "no memory" else 8192 * MIB
    job = corpus.job(source, out=tmp_path / "out", item_timeout=0.1, memory_limit=limit)
    prepare(job, "filter")
    monkeypatch.setattr(isolate, "START", 0.1 if why == "a slow machine" else 60.0)
    if why == "a broken library":
        monkeypatch.setattr(environment, "python", lambda *_: ["false"])
    with pytest.raises(RunError, match=rf"^filter: a process .*{words}.*no recording is to blame"):
        stage.run("filter", job, SHARD, isolate=True)
    assert failures(job, "filter") == []
    assert stage.pending("filter", job, SHARD) == (COUNT, 0)


@pytest.mark.nightly
def test_isolated_and_ordinary_run_publish_the_same(source: Path, tmp_path: Path) -> None:
    quiet, _ = corpus.run(corpus.job(source))
    job = corpus.job(source, out=tmp_path / "out")
    versions.begin_layout(job.out, 0)
    pipeline.run_shard_stage(job, Executor(), job.out / "scratch")
    for name in stage.PER_SHARD:
        assert stage.run(name, job, SHARD, isolate=True).computed == COUNT
    published, _ = corpus.run(job)
    assert corpus.content(published.path) == corpus.content(quiet.path)


def killed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, times: int, seconds: float
) -> Job:
    """A job whose clip of this length (0: each one) is killed so many times, ready to be cut."""
    monkeypatch.setattr(isolate, "PAUSE", 0.0)
    monkeypatch.setattr(memory_limits, "kills", lambda: 7)
    (tmp_path / "kills").write_text(times * "once\n")
    monkeypatch.setenv("UTTERMILL_KILLS", str(tmp_path / "kills"))
    poison = corpus.filters({"use": "tests.plugins.poison", "how": "kill", "seconds": seconds})
    job = corpus.job(source, out=tmp_path / "out", filter=poison, memory_limit=8192 * MIB)
    prepare(job, "filter")
    return job


def alone(job: Job) -> int:
    done = isolate.alone(functools.partial(stage.run, isolate=True), "filter", job, SHARD)
    return done.computed


BAD_SECONDS = corpus.seconds_of(BAD)


@pytest.mark.nightly
def test_a_kill_from_outside_is_no_fault_of_the_item(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What other calls may have caused is nobody's fault; what went before it is kept."""
    job = killed(source, tmp_path, monkeypatch, 2, BAD_SECONDS)
    with pytest.raises(KilledFromOutside, match=r"r02\.wav: .*killed from outside \(signal 9\)"):
        stage.run("filter", job, SHARD, isolate=True)
    assert failures(job, "filter") == []
    assert stage.pending("filter", job, SHARD) == (COUNT - BAD, BAD)
    assert alone(job) == COUNT - BAD, "killed once more, and good then"
    assert failures(job, "filter") == []


@pytest.mark.nightly
def test_an_item_that_dies_alone_with_memory_to_spare_is_blamed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = killed(source, tmp_path, monkeypatch, 2, BAD_SECONDS)
    assert alone(job) == COUNT
    assert failures(job, "filter") == ["crashed"]
    assert stage.pending("filter", job, SHARD) == (0, COUNT), "it stays so until somebody asks"


@pytest.mark.parametrize("why", ["the kernel killed", "most of its limit"])
@pytest.mark.nightly
def test_an_item_that_dies_for_want_of_memory_is_not_blamed(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    job = killed(source, tmp_path, monkeypatch, 2, BAD_SECONDS)
    if why == "the kernel killed":
        monkeypatch.setattr(memory_limits, "kills", iter(range(1000)).__next__)
    else:
        monkeypatch.setattr(isolate, "SPARE", 1e-4)
    assert alone(job) == COUNT
    assert failures(job, "filter") == [KILLED]


@pytest.mark.nightly
def test_where_nothing_lives_the_caller_decides(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A shard's only item, killed for want of memory: other shards tell whose fault that is."""
    job = killed(source, tmp_path, monkeypatch, 1000, corpus.seconds_of(COUNT - 1))
    with pytest.raises(KilledFromOutside):
        stage.run("filter", job, SHARD, isolate=True)
    monkeypatch.setattr(memory_limits, "kills", iter(range(1000)).__next__)
    with pytest.raises(KilledFromOutside, match="those of 1 item in a row"):
        alone(job)
    assert stage.pending("filter", job, SHARD) == (1, COUNT - 1)
    assert isolate.resigned(functools.partial(stage.run, isolate=True), "filter", job, SHARD)
    assert failures(job, "filter") == [KILLED]


@pytest.mark.nightly
def test_what_kills_item_after_item_ends_the_run_and_blames_none(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = killed(source, tmp_path, monkeypatch, 1000, 0.0)
    with pytest.raises(RunError, match=r"those of 3 items in a row, 2 times each.*the limit is"):
        alone(job)
    assert stage.pending("filter", job, SHARD) == (COUNT, 0)
    (tmp_path / "kills").write_text("")
    published, _ = corpus.run(job)
    assert published.summary["utterances"]["packaged"] == COUNT


@pytest.mark.full
@pytest.mark.parametrize(
    ("how", "error", "words"),
    [("bug", ValueError, "our own bug"), ("odd_bug", RuntimeError, "OddError: our own")],
)
def test_our_own_bugs_are_loud(
    source: Path, tmp_path: Path, how: str, error: type[Exception], words: str
) -> None:
    """Also an error that does not survive pickling: it is not a crash of an item."""
    job = poisoned(source, tmp_path / "out", "filter", how)
    prepare(job, "filter")
    with pytest.raises(error, match=words):
        stage.run("filter", job, SHARD, isolate=True)
    assert failures(job, "filter") == []


@pytest.mark.full
def test_finished_answers_are_taken_before_the_culprit_is_named(tmp_path: Path) -> None:
    """A child that is ahead of its parent: three answers wait in the pipe while the fourth hangs.
    Reading ahead would blame one of the finished units for the hang."""
    child = _fake_child(answers=3)
    try:
        time.sleep(0.5)
        assert [child.next()[1] for _ in range(4)] == [None, None, None, "timeout"]
    finally:
        child.__exit__()


def test_child_that_dies_amid_an_answer_is_crashed() -> None:
    child = _fake_child(answers=1, cut=3)
    try:
        assert child.next()[1] is None
        assert child.next()[1] == "crashed"
    finally:
        child.__exit__()


def _fake_child(answers: int, cut: int = 0) -> isolate._Child:
    """A child that gives answers at once, then hangs; or gives `cut` bytes of one and dies."""
    code = (
        "import pickle,sys,time\n"
        "data = pickle.dumps([{'row': 1}])\n"
        "frame = len(data).to_bytes(4, 'big') + data\n"
        f"sys.stdout.buffer.write(frame * {answers})\n"
        f"sys.stdout.buffer.write(frame[:{cut}])\n"
        "sys.stdout.flush()\n"
        f"time.sleep(0 if {cut} else 3600)\n"
    )
    child = isolate._Child.__new__(isolate._Child)
    child.ready = True
    child.peak = 0
    child.job = Job(Path("nowhere"), item_timeout=4.0)
    here, there = os.pipe()
    child.process = subprocess.Popen([sys.executable, "-c", code], stdout=there)
    os.close(there)
    child.answers = Connection(here, writable=False)
    return child


# Items whose process died are tried again when asked, others never.


RETRY = {"shard": {"retry": True}}


OTHER: dict[str, dict[str, Any]] = {
    "filter": {"segmenter": {"use": "auto"}},
    "resample": {"rate": 8000},
    "transcribe": {"backend": {"use": "tests.plugins.other_asr"}},
}


@pytest.mark.parametrize(
    "name", ["probe", "filter", *map(tiers.nightly, ("resample", "transcribe"))]
)
def test_a_detail_is_as_long_as_manifests_keep(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    corpus.make(tmp_path / "in", 1)
    job = corpus.job(tmp_path)
    corpus.run(job)
    monkeypatch.setattr(errors, "MOST_DETAIL", 7)
    units: list[Any] = [OfRecording(manifest.listed(job.out, "shard-000000").to_pylist()[0])]
    if name != "probe":
        other = corpus.job(tmp_path, **{name: OTHER[name]})
        units = contract.find(name).todo(ShardView(other, "shard-000000"))[0]
    rows = [row for unit in units for row in contract.worker(name).failure(unit, "x", 99 * "y")]
    assert [row["error_detail"] for row in rows] == ["yyyyyyy"]


ENDINGS = [
    (KILLED, "its process was killed from outside (signal 9)", 1),
    ("crashed", "its process ended with status -11", 0),
    ("crashed", "it was killed (signal 9) 2 times by itself, with 3 MiB of the 9", 0),
]


@pytest.mark.parametrize(("name", "ending"), tiers.covering(stage.PER_SHARD, ENDINGS))
def test_what_was_killed_from_outside_heals_at_the_next_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, ending: tuple[str, str, int]
) -> None:
    code, detail, again = ending
    corpus.make(tmp_path / "in", 4)
    # Without a cache, `filter` leaves all conversion to `resample`.
    job = corpus.job(tmp_path, package={"max_failed_fraction": 1.0}, cache_bytes=0)
    versions.begin_layout(job.out, 0)
    pipeline.run_shard_stage(job, Executor(), tmp_path / "scratch")
    for before in stage.PER_SHARD[: stage.PER_SHARD.index(name)]:
        stage.run(before, job, "shard-000000")

    def first_fails(name: str, job: Job, units: list[Any]) -> Iterator[Sequence[AnyRow]]:
        yield from (contract.find(name).failure(unit, code, detail) for unit in units[:1])
        yield from contract.find(name).compute(units[1:], job)

    with monkeypatch.context() as killing:
        killing.setattr(isolate, "results", first_fails)
        stage.run(name, job, "shard-000000", isolate=True)
    healed, counts = corpus.run(job)
    assert counts[name] == (again, 4 - again)
    assert (f"{name}.{code}" in healed.summary["reasons"]) != bool(again)


def test_one_utterance_that_cannot_be_converted_costs_no_other(tmp_path: Path) -> None:
    """A level that refuses one segment of a recording leaves the others alone."""
    (tmp_path / "in").mkdir()
    loud = corpus.speech(2, 3, 16000)
    loud[16000:32000] *= 100
    sf.write(tmp_path / "in" / "loud.wav", loud, 16000, "FLOAT")
    rows = [{"wav": str(tmp_path / "in" / "loud.wav"), "key": f"k{n}", "txt": "words",
             "start": float(n), "end": n + 1.0} for n in range(3)]  # fmt: skip
    corpus.jsonl(tmp_path / "list.jsonl", rows)
    source = [{"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "c"}]
    job = corpus.job(
        tmp_path, sources=source, resample={"levels": [{"use": "applio"}]},
        filter={"segmenter": {"use": "given"}, "filters": [{"use": "duration"}]},
    )  # fmt: skip
    published, _ = corpus.run(job)
    assert published.summary["utterances"] == {"in": 3, "packaged": 2, "dropped": 0, "failed": 1}
    assert published.summary["reasons"]["resample.over_full_scale"]["items"] == 1


def test_a_machine_that_got_more_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    corpus.make(tmp_path / "in", 6)
    (tmp_path / "in" / "broken.wav").write_bytes(b"no audio")
    package = {"package": {"max_failed_fraction": 1.0}}
    convert = pcm.of_clip

    def greedy(clip: Any, chosen: Any) -> Any:
        if clip.num_samples == round(corpus.seconds_of(5) * corpus.RATES[0]):
            raise MemoryError("so much")
        return convert(clip, chosen)

    with monkeypatch.context() as small:
        small.setattr(pcm, "of_clip", greedy)
        published, _ = corpus.run(corpus.job(tmp_path, **package))
        assert published.summary["utterances"]["failed"] == 1
        assert "resample.out_of_memory" in published.summary["reasons"]
    _, counts = corpus.run(corpus.job(tmp_path, **package))
    assert counts["resample"] == (0, 6), "it stays so until somebody asks"
    healed, counts = corpus.run(corpus.job(tmp_path, **package, **RETRY))
    assert counts["shard"] == (0, 7), "what is broken itself is not tried again"
    assert counts["filter"] == (0, 6)
    assert counts["resample"] == (1, 5)
    assert healed.summary["utterances"]["packaged"] == 6
    again, counts = corpus.run(corpus.job(tmp_path, **package, **RETRY))
    assert not again.new
    assert {computed for computed, _ in counts.values()} == {0}
