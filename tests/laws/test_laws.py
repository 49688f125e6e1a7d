"""The laws of the design on ten recordings, in one process: exact counts, exact bytes.

Each law has a control: a fault put in on purpose, which its test must find.
"""

import dataclasses
import errno
import logging
import os
import random
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
import soundfile as sf
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.helpers import corpus, killed_runs, own_mounts, tiers
from tests.helpers.corpus import STAGES
from uttermill.tasks import pipeline, plugins
from uttermill.tasks.accounting import ledger, summary
from uttermill.tasks.base.errors import ConservationError, CorruptManifest, MillError, RunError
from uttermill.tasks.base.schema import LEDGER
from uttermill.tasks.formats import _tars
from uttermill.tasks.publish.unchanged import UpToDate
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.runs import publish
from uttermill.tasks.runs.executor import Executor, Published
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.shard_store.shard_view import ShardView
from uttermill.tasks.stages import stage
from uttermill.tasks.storage import versions
from uttermill.tasks.storage.local import HashedFile

FIRST = dict.fromkeys(STAGES, (10, 0))
NOTHING = dict.fromkeys(STAGES, (0, 10))
POISON = {"use": "tests.plugins.poison"}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`in/` with ten recordings and `out/` after one run over them; never changed."""
    tmp = tmp_path_factory.mktemp("base")
    corpus.make(tmp / "in")
    published, counts = corpus.run(corpus.job(tmp))
    assert counts == FIRST
    assert published.new
    return tmp


@pytest.fixture
def again(base: Path, tmp_path: Path) -> Callable[..., Job]:
    """Jobs on a copy of the finished OUT; the source is the shared one."""
    shutil.copytree(base / "out", tmp_path / "out", symlinks=True)

    def job(**changes: Any) -> Job:
        return corpus.job(base, **{"out": tmp_path / "out", **changes})

    return job


@pytest.fixture
def own(tmp_path: Path) -> Path:
    """`in/` and `out/` of the test's own, after one run."""
    corpus.make(tmp_path / "in")
    corpus.run(corpus.job(tmp_path))
    return tmp_path


def expect(counts: dict[str, tuple[int, int]], **changed: tuple[int, int]) -> None:
    assert counts == {**NOTHING, **changed}


def bodies(version: Path) -> dict[str, bytes]:
    """All files but dataset.json and the data card, which hold the version's number."""
    numbered = ("dataset.json", "README.md", "croissant.json")
    return {k: v for k, v in corpus.content(version).items() if k not in numbered}


def clips(version: Path) -> list[dict[str, Any]]:
    """All rows by id, without their places in tars: those depend on the versions before."""
    rows = corpus.utterances(version)
    for row in rows:
        del row["shard"], row["offset"], row["generation"]
    return sorted(rows, key=lambda row: row["id"])


# --- laws 4 and 5: what a change costs ---------------------------------------------------------


@pytest.mark.full
def test_rerun_computes_and_publishes_nothing(again: Callable[..., Job]) -> None:
    job = again()
    before = corpus.parts(job.out, "manifests", "audio", "datasets")
    published, counts = corpus.run(job)
    assert counts == NOTHING
    assert not published.new
    assert published.path.name == "v0001"
    assert corpus.parts(job.out, "manifests", "audio", "datasets") == before
    assert os.readlink(job.out / "datasets" / "latest") == "v0001"


@pytest.mark.nightly
def test_thresholds_both_ways(base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured = tmp_path / "measured"
    monkeypatch.setenv("UTTERMILL_COUNT", str(measured))
    loose = corpus.job(base, out=tmp_path / "out", filter=corpus.filters(POISON))
    tight = corpus.job(base, out=tmp_path / "out", filter=corpus.filters(POISON, max=1.1))
    first, counts = corpus.run(tight)
    expect(counts, shard=(10, 0), filter=(10, 0), resample=(4, 0), transcribe=(4, 0),
           package=(4, 0))  # fmt: skip
    second, counts = corpus.run(loose)
    expect(counts, resample=(6, 4), transcribe=(6, 4), package=(6, 4))
    third, counts = corpus.run(tight)
    expect(counts, resample=(0, 4), transcribe=(0, 4), package=(0, 4))
    assert bodies(third.path) == bodies(first.path)
    assert len(corpus.utterances(second.path)) == 10
    dropped = [r for r in corpus.ledger(third.path) if r["reason"] == "too_long"]
    assert [(r["outcome"], r["stage"], r["threshold"]) for r in dropped] == 6 * [
        ("dropped", "filter", 1.1)
    ]
    assert len(measured.read_text().splitlines()) == 10, "a clip was measured twice"


@pytest.mark.nightly
def test_added_filter_costs_its_measure_only(again: Callable[..., Job]) -> None:
    job = again(filter=corpus.filters(POISON))
    published, counts = corpus.run(job)
    expect(counts, filter=(10, 0))  # new columns, the same tars
    last = manifest.read(job.out, "filter", "shard-000000")[-1]
    rows = last.table.to_pylist()
    assert {row["kind"] for row in rows} == {"utterance"}, "recordings were cut again"
    assert {name for row in rows for name, _ in row["measures"]} == {"poison"}
    assert all(row["poison"] for row in corpus.utterances(published.path))
    # Its threshold is free; taking it away gives back what there was.
    _, counts = corpus.run(again(filter=corpus.filters({**POISON, "max": 3.0})))
    expect(counts, resample=(0, 6), transcribe=(0, 6), package=(6, 0))
    _, counts = corpus.run(again())
    expect(counts, package=(4, 6))


@pytest.mark.full
def test_equal_files_are_two_recordings_where_they_are_kept(own: Path) -> None:
    shutil.copy(own / "in" / "r01.wav", own / "in" / "s01.wav")
    shutil.copy(own / "in" / "r01.wav", own / "in" / "s02.wav")
    corpus.add(own / "in", 10)
    shutil.copy(own / "in" / "r10.wav", own / "in" / "s10.wav")
    job = corpus.job(own, filter={"duplicate_files": "keep"})
    published, counts = corpus.run(job)
    # Each is decoded; new equal ones are converted and heard once, and the sums are whole.
    assert counts["filter"] == (4, 10)
    assert {sum(counts[stage]) for stage in STAGES} == {14}
    assert len(corpus.utterances(published.path)) == 14
    assert verify(published.path) == []
    expect(corpus.run(job)[1], **dict.fromkeys(STAGES, (0, 14)))


@pytest.mark.full
def test_a_span_given_twice_with_other_texts_costs_only_itself(own: Path) -> None:
    span = {"audio_filepath": str(own / "in" / "r09.wav"), "offset": 0.5, "duration": 1.0}
    lines = [
        {**span, "text": "one", "speaker": "a"}, {**span, "text": "two", "speaker": "b"},
        {**span, "offset": 0.6, "text": "x"}, {**span, "offset": 50.0, "text": "y"},
        {**span, "offset": 60.0, "text": "z"},
    ]  # fmt: skip
    path = own / "list.jsonl"
    corpus.jsonl(path, lines)
    job = corpus.job(
        own, out=own / "other", sources=[{"kind": "jsonl", "path": str(path), "name": "n"}],
        filter={"segmenter": {"use": "given"}},
    )  # fmt: skip
    published, counts = corpus.run(job)
    assert sorted(row["text"] for row in corpus.utterances(published.path)) == ["one", "x"]
    reasons = published.summary["reasons"]
    assert reasons["filter.duplicate_segment"] == {"items": 1, "seconds": 0.0}
    assert reasons["filter.segment_outside_audio"] == {"items": 2, "seconds": 0.0}
    assert counts["resample"] == (2, 0)
    assert verify(published.path) == []
    clips = [row["utterance"] for row in corpus.ledger(published.path) if row["utterance"]]
    assert len({*clips}) == len(clips) == 5


@pytest.mark.full
def test_replaced_content_is_computed_again(own: Path) -> None:
    before = corpus.utterances(own / "out/datasets/v0001")
    old = {r["recording"]: r["sha256"] for r in before}
    corpus.add(own / "in", 4, seed=77)
    published, counts = corpus.run(corpus.job(own))
    assert counts == {**dict.fromkeys(STAGES, (1, 9)), "package": (10, 0)}
    new = {r["recording"]: r["sha256"] for r in corpus.utterances(published.path)}
    assert {name for name in new if new[name] != old[name]} == {"c/r04.wav"}


def test_transient_settings_change_nothing(again: Callable[..., Job], tmp_path: Path) -> None:
    job = again(
        shard={"settle_seconds": 0.01, "hours": 0.002, "probe_batch": 3},
        scratch=tmp_path / "scratch", cache_bytes=1, item_timeout=1.0, memory_limit=1,
    )  # fmt: skip
    published, counts = corpus.run(job)
    assert counts == NOTHING
    assert not published.new


# --- law 1: conservation -----------------------------------------------------------------------


def test_every_sample_has_one_outcome(base: Path) -> None:
    rows = corpus.ledger(base / "out/datasets/v0001")
    told: dict[str, int] = {}
    for row in rows:
        told[row["recording"]] = told.get(row["recording"], 0) + row["samples"]
    found = {f"c/{p.name}": sf.info(str(p)).frames for p in (base / "in").iterdir()}
    assert told == found


@pytest.mark.full
def test_overlap_and_segments_beyond_the_end(own: Path) -> None:
    path = str(own / "in" / "r09.wav")  # 2.2 s
    spans = [("a", 0.0, 1.2), ("b", 0.5, 1.4), ("c", 2.0, 2.3), ("d", 5.0, 6.0),
             ("e", 1.9, 9.9), ("f", 7.0, 8.0)]  # fmt: skip
    rows = [{"wav": path, "key": k, "txt": k, "start": s, "end": e} for k, s, e in spans]
    rows += [{"wav": str(own / "in" / f"r0{n}.wav"), "key": f"k{n}", "txt": "x"} for n in (0, 1)]
    listing = own / "list.jsonl"
    corpus.jsonl(listing, rows)
    job = corpus.job(
        own, out=own / "other", sources=[{"kind": "jsonl", "path": str(listing), "name": "c"}],
        filter={**corpus.filters(max=1.0), "segmenter": {"use": "auto"}},
    )  # fmt: skip
    published, counts = corpus.run(job)
    expect(counts, shard=(3, 0), filter=(3, 0), resample=(4, 0), transcribe=(4, 0), package=(4, 0))
    rate = corpus.RATES[9 % 5]
    told = [
        (r["outcome"], r["reason"], r["start"], r["end"], r["samples"], r["overlap_samples"])
        for r in corpus.ledger(published.path)
        if r["recording"] == "c/in/r09.wav"
    ]
    assert sorted(told) == sorted([
        ("dropped", "too_long", 0.0, 1.2, round(0.5 * rate), round(0.7 * rate)),
        ("packaged", "packaged", 0.5, 1.4, round(0.9 * rate), 0),
        ("packaged", "packaged", 2.0, 2.2, round(0.2 * rate), 0),
        ("failed", "segment_outside_audio", 2.2, 2.2, 0, 0),
        ("failed", "segment_outside_audio", 2.2, 2.2, 0, 0),
        ("failed", "segment_outside_audio", 1.9, 2.2, round(0.1 * rate), round(0.2 * rate)),
        ("unsegmented", "outside_segments", 1.4, 1.9, round(0.5 * rate), 0),
    ])  # fmt: skip
    seconds = published.summary["seconds"]
    assert seconds["in"] == pytest.approx(2.2 + 0.4 + 0.6)
    assert seconds["overlap"] == pytest.approx(0.9)
    assert verify(published.path) == []


@pytest.mark.full
def test_failing_midway_counts_the_decoded_prefix(own: Path) -> None:
    path = own / "in" / "r09.wav"
    data = path.read_bytes()
    path.write_bytes(data[: 44 + 2 * 60_000])
    published, counts = corpus.run(corpus.job(own))
    expect(counts, shard=(1, 9), filter=(1, 9), resample=(0, 9), transcribe=(0, 9), package=(9, 0))
    rows = [r for r in corpus.ledger(published.path) if r["recording"] == "c/r09.wav"]
    assert [(r["outcome"], r["stage"], r["reason"], r["samples"]) for r in rows] == [
        ("failed", "filter", "truncated", 60_000)
    ]
    assert published.summary["recordings"] == {"in": 10, "failed": 1}
    assert published.summary["seconds"]["failed"] == round(60_000 / 48_000, 6)
    expect(corpus.run(corpus.job(own))[1], resample=(0, 9), transcribe=(0, 9), package=(0, 9))


SPANS = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 40)), max_size=12)


def paint(spans: list[tuple[int, int]]) -> list[int]:
    """Sample by sample: the first span in the list that holds it owns it."""
    owned = [0] * len(spans)
    for sample in range(40):
        for index, (start, end) in enumerate(spans):
            if start <= sample < end:
                owned[index] += 1
                break
    return owned


@pytest.mark.full
@settings(max_examples=300, deadline=None)
@given(SPANS)
def test_exclusive_is_the_painter(spans: list[tuple[int, int]]) -> None:
    assert ledger.exclusive(spans) == paint(spans)


@pytest.mark.full
@pytest.mark.parametrize("lost", tiers.few([0, 1, 2], 1))
def test_control_lost_span_is_loud(own: Path, lost: int) -> None:
    """Three touching segments of a recording; without any one of them the ledger refuses."""
    spans = [(0.0, 0.7), (0.7, 1.5), (1.5, 2.2)]
    rows = [{"wav": str(own / "in/r09.wav"), "key": str(s), "start": s, "end": e} for s, e in spans]
    corpus.jsonl(own / "list.jsonl", rows)
    source = [{"kind": "jsonl", "path": str(own / "list.jsonl"), "name": "c"}]
    job = corpus.job(own, out=own / "other", sources=source,
                     filter={**corpus.filters(), "segmenter": {"use": "given"}})  # fmt: skip
    corpus.run(job)
    view = ShardView(job, "shard-000000")
    (cut,) = view.cuts.values()
    samples = LEDGER.names.index("samples")
    assert sum(r[samples] for r in ledger.of_shard(view, list(view.transcribed()))) == cut.decoded
    del cut.spans[lost]
    with pytest.raises(ConservationError, match="the ledger accounts for"):
        ledger.of_shard(view, list(view.transcribed()))


def test_control_leaky_segmenter_is_loud(base: Path, tmp_path: Path) -> None:
    leaky = {"segmenter": {"use": "tests.plugins.leaky"}, "filters": corpus.FILTERS}
    with pytest.raises(ConservationError, match="are in no span"):
        corpus.run(corpus.job(base, out=tmp_path / "out", filter=leaky))
    assert not corpus.parts(tmp_path / "out", "manifests/filter")
    assert not versions.all_of(tmp_path / "out")


@pytest.mark.nightly
def test_sums_do_not_depend_on_chunks() -> None:
    """Published counts are compared with those of the file: other chunks, the same numbers."""
    random_ = np.random.default_rng(5)
    count = 200_000
    samples = random_.integers(0, 48_000 * 3_600, count)
    rates = random_.choice([16_000, 22_050, 44_100], count)
    whole = pa.table({
        "recording": [str(n) for n in range(count)], "utterance": ["u"] * count,
        "dataset": ["d"] * count, "language": ["en"] * count,
        "outcome": random_.choice(["packaged", "dropped"], count).tolist(),
        "stage": ["package"] * count, "reason": ["r"] * count, "start": np.zeros(count),
        "samples": samples, "seconds": samples / rates, "overlap_samples": samples // 7,
        "sample_rate": rates,
    })  # fmt: skip
    cut = sorted(random_.integers(0, count, 999).tolist())
    bounds = zip([0, *cut], [*cut, count], strict=True)
    chunked = pa.concat_tables([whole.slice(low, high - low) for low, high in bounds])
    assert summary.of_ledger(chunked) == summary.of_ledger(whole)
    of_chunks, of_whole = (summary.totals(each).sums for each in (chunked, whole))
    assert summary.hours_by(of_chunks, "outcome") == summary.hours_by(of_whole, "outcome")
    exact = sum(int(samples[rates == r].sum()) / r for r in (16_000, 22_050, 44_100))
    assert summary.of_ledger(whole)["seconds"]["in"] == round(exact, 6)


# --- law 2: determinism ------------------------------------------------------------------------


def _reversed(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = plugins.SOURCES.load("folder")
    listed = folder.recordings
    monkeypatch.setattr(folder, "recordings", lambda s: iter(list(listed(s))[::-1]))


@pytest.mark.full
@pytest.mark.parametrize(
    "case",
    tiers.few(
        ["fresh", "small_shards", "probe_batch", "listing_order", "hand_over", "long_path"],
        "small_shards",
        "listing_order",
        "hand_over",
    ),
)
def test_bytes_are_the_same(
    base: Path, tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes: dict[str, Any] = {"out": tmp_path / "out"}
    if case == "small_shards":
        changes["shard"] = {"settle_seconds": 0, "hours": 0.0008}
    elif case == "probe_batch":
        changes["shard"] = {"settle_seconds": 0, "probe_batch": 3}
    elif case == "listing_order":
        _reversed(monkeypatch)
    elif case == "hand_over":
        changes["scratch"] = tmp_path / "scratch"
    elif case == "long_path":
        changes["out"] = tmp_path / "a rather longer path" / "of OUT ü"
    published, counts = corpus.run(corpus.job(base, **changes))
    assert counts == FIRST
    if case == "small_shards":
        assert len(manifest.shards(published.path.parents[1])) > 3
    assert corpus.content(published.path) == corpus.content(base / "out/datasets/v0001")


# --- law 3: commit -----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three recordings and what one quiet run published of them."""
    tmp = tmp_path_factory.mktemp("small")
    corpus.make(tmp / "in", 3)
    corpus.run(corpus.job(tmp))
    return tmp


class Breaker:
    """Counts calls of functions; the one numbered `at` raises instead."""

    def __init__(self, at: int | None, code: int) -> None:
        self.at, self.code, self.calls = at, code, 0

    def around(self, work: Callable[..., Any]) -> Callable[..., Any]:
        def broken(*args: Any, **kwargs: Any) -> Any:
            self.calls += 1
            if self.calls - 1 == self.at:
                raise OSError(self.code, os.strerror(self.code))
            return work(*args, **kwargs)

        return broken


RENAMES = [(os, "replace"), (os, "rename")]
SYNCS = [(os, "fsync")]


def _writes() -> list[tuple[Any, str]]:
    return [(HashedFile, "write"), (pq, "write_table"), (Path, "write_text"),
            (_tars.Tar, "add"), (Path, "mkdir")]  # fmt: skip


def broken_run(job: Job, where: list[tuple[Any, str]], at: int | None, code: int) -> Breaker:
    breaker = Breaker(at, code)
    with pytest.MonkeyPatch.context() as patch:
        for owner, name in where:
            patch.setattr(owner, name, breaker.around(getattr(owner, name)))
        if at is None:
            pipeline.run_here(job)
        else:
            with pytest.raises((OSError, MillError)) as caught:
                pipeline.run_here(job)
            assert os.strerror(code) in str(caught.value)
    return breaker


def break_everywhere(
    small: Path, tmp: Path, where: list[tuple[Any, str]], code: int, most: int
) -> int:
    """Break each call in turn (or `most` of them, seeded); every rerun must mend all."""
    wanted = corpus.content(small / "out/datasets/v0001")
    count = broken_run(corpus.job(small, out=tmp / "count"), where, None, code).calls
    points = range(count)
    if count > most:
        points = sorted({0, count - 1, *random.Random(7).sample(range(count), most - 2)})  # type: ignore[assignment]
    for at in points:
        job = corpus.job(small, out=tmp / f"at{at}")
        broken_run(job, where, at, code)
        for version in versions.all_of(job.out):
            assert verify(version) == [], f"a published half after call {at}"
        # The run that failed was not a dead one: it cleared up after itself.
        assert [p for p in corpus.temps(job.out) if p.name != ".latest.tmp"] == []
        published, _ = corpus.run(job)
        assert corpus.content(published.path) == wanted, f"other bytes after call {at}"
        assert published.path.name == "v0001"
        assert os.readlink(job.out / "datasets" / "latest") == "v0001"
        assert corpus.temps(job.out) == []
        shutil.rmtree(job.out)
    return count


@pytest.mark.parametrize("most", [10, tiers.nightly(20)])
@pytest.mark.nightly
def test_a_failing_rename_is_mended_by_a_rerun(small: Path, tmp_path: Path, most: int) -> None:
    # layout, shard, index, known, filter, blob, resample, transcribe, four files of facts,
    # data.list, units.txt, data card, croissant.json, dataset.json, version, latest, guards.json,
    # index
    assert break_everywhere(small, tmp_path, RENAMES, errno.EIO, most) == 21


@pytest.mark.parametrize("most", [5, tiers.nightly(9)])
@pytest.mark.nightly
def test_a_failing_sync_is_mended_by_a_rerun(small: Path, tmp_path: Path, most: int) -> None:
    assert break_everywhere(small, tmp_path, SYNCS, errno.EIO, most) > 10


@pytest.mark.full
@pytest.mark.parametrize("most", [4, tiers.nightly(16)])
def test_a_full_disk_is_mended_by_a_rerun(small: Path, tmp_path: Path, most: int) -> None:
    assert break_everywhere(small, tmp_path, _writes(), errno.ENOSPC, most) > 60


#: Settings for which names or texts of the whole corpus are sorted.
SORTED_BY: dict[str, dict[str, Any]] = {
    "splits": {"package": {"splits": {"dev": 0.3}}},
    "texts": {"package": {"splits": {"dev": 0.3}, "disjoint": ["text"]}},
    "hours": {"package": {"max_hours_per_speaker": 0.0005}},
    "copies": {"filter": {"filters": [{"use": "duplicate"}]}},
}
SORTED = [*SORTED_BY.values()]


def with_memory(asked: dict[str, Any], memory: str) -> dict[str, Any]:
    return {**asked, "package": {**asked.get("package", {}), "memory": memory}}


@pytest.mark.parametrize("which", ["out", "scratch"])
@pytest.mark.nightly
def test_a_really_full_disk(small: Path, tmp_path: Path, which: str) -> None:
    """A tmpfs of growing size, in a mount namespace of its own."""
    (tmp_path / "disk").mkdir()
    told = own_mounts.told("tests.helpers.full_disk", str(small), str(tmp_path), which)
    assert told["full"] >= 4, told
    assert told["faults"] == []


@pytest.mark.parametrize("asked", SORTED, ids=[*SORTED_BY])
@pytest.mark.nightly
def test_too_little_memory_is_mended_by_a_rerun(
    small: Path, tmp_path: Path, asked: dict[str, Any]
) -> None:
    """Whatever rule needs tables of the corpus: it publishes nothing, and computes nothing twice
    once it has what it needs."""
    poor = corpus.job(small, out=tmp_path / "out", **with_memory(asked, "0.2MB"))
    rich = corpus.job(small, out=poor.out, **with_memory(asked, "1GB"))
    with pytest.raises(RunError, match=r"^tables .* neither into 0\.2MB .*; raise package\.memory"):
        corpus.run(poor)
    assert (versions.all_of(poor.out), corpus.temps(poor.out)) == ([], [])
    published, done = corpus.run(rich)
    assert {name: done[name][0] for name in STAGES[:-1]} == dict.fromkeys(STAGES[:-1], 0)
    whole = corpus.job(small, out=tmp_path / "whole", **with_memory(asked, "1GB"))
    assert corpus.content(published.path) == corpus.content(corpus.run(whole)[0].path)


@pytest.mark.full
@pytest.mark.parametrize("kills", [tiers.nightly(2), 4, tiers.nightly(20)])
def test_killed_anywhere(
    small: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture, kills: int
) -> None:
    """SIGKILL amid writes, before renames and syncs: what has its final name is complete."""
    killed_runs.lose_nothing(
        small, tmp_path, caplog, kills, 11, lambda out: corpus.job(small, out=out)
    )


# --- law 5: damaged checkpoints ----------------------------------------------------------------


@pytest.fixture(scope="module")
def reseeded(base: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What the second version holds when nothing was damaged in between."""
    out = tmp_path_factory.mktemp("reseeded") / "out"
    shutil.copytree(base / "out", out, symlinks=True)
    published, _ = corpus.run(corpus.job(base, out=out, package={"seed": 1}))
    assert published.path.name == "v0002"
    return corpus.content(published.path)


DAMAGED = ["shard", "filter", "resample", "transcribe", "audio"]
RECOMPUTED = {
    "shard": ("shard", "filter", "resample", "transcribe"), "filter": ("filter",),
    "resample": ("resample",), "transcribe": ("transcribe",), "audio": ("resample",),
}  # fmt: skip


@pytest.mark.parametrize(("what", "how"), tiers.covering(DAMAGED, ["flip", "truncate", "delete"]))
def test_damaged_checkpoints_are_made_again(
    again: Callable[..., Job], reseeded: dict[str, bytes], what: str, how: str,
    caplog: pytest.LogCaptureFixture,
) -> None:  # fmt: skip
    job = again(package={"seed": 1})
    (path,) = corpus.parts(job.out, "audio" if what == "audio" else f"manifests/{what}")
    damage(path, how)
    with caplog.at_level(logging.WARNING, "uttermill"):
        published, counts = corpus.run(job)
    assert corpus.content(published.path) == reseeded
    for name in STAGES[:4]:
        assert bool(counts[name][0]) == (name in RECOMPUTED[what]), (name, counts)
    said = [r.getMessage() for r in caplog.records if "made again" in r.getMessage()
            or "computed again" in r.getMessage()]  # fmt: skip
    assert any(path.name in text for text in said), caplog.text
    expect(corpus.run(job)[1])


def damage(path: Path, how: str) -> None:
    if how == "flip":
        corpus.flip(path, random.Random(path.name).randrange(path.stat().st_size))
    elif how == "truncate":
        os.truncate(path, path.stat().st_size // 2)
    else:
        path.unlink()


def test_damaged_audio_is_found_while_it_is_heard(
    again: Callable[..., Job], caplog: pytest.LogCaptureFixture
) -> None:
    other = {"backend": {"use": "tests.plugins.other_asr"}}
    sound = again(transcribe=other)
    shutil.copytree(sound.out, sound.out.with_name("damaged"), symlinks=True)
    job = dataclasses.replace(sound, out=sound.out.with_name("damaged"))
    (path,) = corpus.parts(job.out, "audio")
    damage(path, "flip")
    with caplog.at_level(logging.WARNING, "uttermill"):
        published, counts = corpus.run(job)
    assert counts["resample"][0] == counts["transcribe"][0] == 10
    assert path.name in caplog.text
    assert corpus.content(published.path) == corpus.content(corpus.run(sound)[0].path)


@pytest.mark.nightly
def test_a_disk_that_damages_everything_ends_the_run(
    again: Callable[..., Job], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Repairs are bounded: no run goes round for ever."""
    from uttermill.tasks.shard_store import blobs

    def damaged(data: bytes | None, out: Path, place: Any) -> Any:
        raise CorruptManifest("audio blob is damaged", f"{out}/audio/{place.file}")

    monkeypatch.setattr(blobs, "_sound", damaged)
    with pytest.raises(MillError, match="audio blob is damaged"):
        corpus.run(again(package={"seed": 1}))
    with pytest.raises(RunError, match="check the disk"):
        corpus.run(again(transcribe={"backend": {"use": "fake", "seed": 1}}))


@pytest.mark.nightly
def test_file_that_changes_under_the_run(own: Path) -> None:
    """Hashed by shard, other bytes when filter reads it: failed as `changed`, next run takes it."""
    corpus.add(own / "in", 10)
    job = corpus.job(own)
    here = Executor()
    sharded = pipeline.run_shard_stage(job, here, job.out / "scratch")
    corpus.add(own / "in", 10, seed=99)
    state = UpToDate(job, sharded.shards, sharded.index)
    for name in sharded.shards:
        for step in stage.PER_SHARD:
            state.record([pipeline.run_stage(job, name, 0.0, here, step)])
    published = publish.publish(job, sharded.shards, here, job.out / "scratch", state)
    assert isinstance(published, Published)
    told = [r for r in corpus.ledger(published.path) if r["recording"] == "c/r10.wav"]
    assert [(r["outcome"], r["reason"], r["samples"]) for r in told] == [("failed", "changed", 0)]
    assert len(corpus.utterances(published.path)) == 10
    healed, counts = corpus.run(job)
    assert counts == {**dict.fromkeys(STAGES, (1, 10)), "package": (1, 10)}
    assert len(corpus.utterances(healed.path)) == 11


# --- law 7: one bad item costs one item --------------------------------------------------------


def poisoned(how: str) -> dict[str, Any]:
    """The filter that misbehaves on recording 5 (1.4 s)."""
    return corpus.filters({**POISON, "how": how, "seconds": corpus.seconds_of(5)})


@pytest.mark.parametrize(
    ("where", "how", "code"),
    [
        tiers.full("filter", "item_error", "immeasurable"),
        tiers.full("filter", "memory_error", "out_of_memory"),
        ("resample", "memory_error", "out_of_memory"),
        ("transcribe", "item_error", "asr_error"),
    ],
)
def test_a_bad_item_costs_itself(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, where: str, how: str, code: str
) -> None:
    from uttermill.tasks.stages import pcm

    convert = pcm.of_clip

    def greedy(clip: Any, chosen: Any) -> Any:
        if where == "resample" and clip.num_samples == round(1.4 * corpus.RATES[0]):
            raise MemoryError("so much")
        return convert(clip, chosen)

    monkeypatch.setattr(pcm, "of_clip", greedy)
    hearing = {"use": "tests.plugins.poison_asr", "how": how, "seconds": 1.4}
    changes: dict[str, Any] = {
        "filter": {"filter": poisoned(how)}, "transcribe": {"transcribe": {"backend": hearing}},
    }.get(where, {})  # fmt: skip
    job = corpus.job(base, out=tmp_path / "out", **changes)
    published, counts = corpus.run(job)
    later = STAGES[STAGES.index(where) + 1 :]
    assert counts == {**FIRST, **dict.fromkeys(later, (9, 0))}
    bad = [r for r in corpus.ledger(published.path) if r["outcome"] == "failed"]
    assert [(r["recording"], r["stage"], r["reason"]) for r in bad] == [("c/r05.wav", where, code)]
    expect(corpus.run(job)[1], **dict.fromkeys(later, (0, 9)))
    if where == "filter":  # without the filter that failed, the recording is tried again
        healed, counts = corpus.run(corpus.job(base, out=tmp_path / "out"))
        expect(counts, filter=(1, 9), resample=(1, 9), transcribe=(1, 9), package=(1, 9))
        assert clips(healed.path) == clips(base / "out/datasets/v0001")


@pytest.mark.parametrize("where", ["filter", "transcribe"])
def test_control_our_own_bugs_are_loud(base: Path, tmp_path: Path, where: str) -> None:
    backend = {"use": "tests.plugins.poison_asr", "how": "bug", "seconds": 1.4}
    changes = {"filter": poisoned("bug")} if where == "filter" else {
        "transcribe": {"backend": backend}
    }  # fmt: skip
    with pytest.raises(ValueError, match="our own bug"):
        corpus.run(corpus.job(base, out=tmp_path / "out", **changes))
    assert not versions.all_of(tmp_path / "out")
