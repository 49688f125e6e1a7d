"""The hand-over from filter to resample: the same bytes with it, without it, and when it is ill."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import corpus, tiers
from uttermill.tasks import audio, filter, pipeline
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.recording import Locator
from uttermill.tasks.recording.limits import Limits
from uttermill.tasks.runs.executor import Here
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest, recipe
from uttermill.tasks.stages import handover, pcm, stage
from uttermill.tasks.stages.handover import PENDING, DiskBudget

SHARD = "shard-000000"
Decodes = Callable[[], int]


@pytest.fixture
def filtered(tmp_path: Path) -> Job:
    """A job whose shard of six recordings, one of them in two channels, has been filtered."""
    corpus.make(tmp_path / "in", 6)
    (tmp_path / "out").mkdir()
    job = corpus.job(tmp_path, scratch=tmp_path / "scratch", resample={"rate": 11025})
    pipeline.run_shard_stage(job, Here(), tmp_path / "listing")
    stage.run("filter", job, SHARD)
    return job


@pytest.fixture
def decodes(monkeypatch: pytest.MonkeyPatch) -> Decodes:
    """How many recordings were opened since."""
    opened: list[Locator] = []
    real = audio.open_stream

    def counted(where: Locator, limits: Limits | None = None) -> audio.Stream:
        opened.append(where)
        return real(where, limits)

    monkeypatch.setattr(audio, "open_stream", counted)
    return lambda: len(opened)


def entries(job: Job) -> list[Path]:
    assert job.scratch is not None
    return sorted((job.scratch / "handover").glob("*"))


def resampled(job: Job) -> list[tuple[str, str, int]]:
    """(recipe, sha256, samples) of all PCM rows after the resample stage."""
    stage.run("resample", job, SHARD)
    rows = [r for part in manifest.read(job.out, "resample", SHARD) for r in part.table.to_pylist()]
    return sorted((row["audio"], row["sha256"], row["num_samples"]) for row in rows)


def without(job: Job, tmp_path: Path) -> list[tuple[str, str, int]]:
    """The same rows of a run that decodes again."""
    lone = replace(job, out=tmp_path / "lone", scratch=None)
    lone.out.mkdir()
    pipeline.run_shard_stage(lone, Here(), tmp_path / "listing")
    stage.run("filter", lone, SHARD)
    return resampled(lone)


def test_nothing_is_decoded_twice(filtered: Job, tmp_path: Path, decodes: Decodes) -> None:
    assert len(entries(filtered)) == 6
    rows = resampled(filtered)
    assert decodes() == 0
    assert entries(filtered) == []
    assert rows == without(filtered, tmp_path)
    assert decodes() > 0


def flipped(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)


@pytest.mark.parametrize(
    "harm",
    [flipped, tiers.nightly(lambda p: os.truncate(p, 100)), lambda p: os.truncate(p, 0), os.unlink],
)
def test_a_lost_or_damaged_entry_is_decoded_again(
    filtered: Job, tmp_path: Path, decodes: Decodes, harm: Callable[[Path], None]
) -> None:
    for path in entries(filtered)[::2]:
        harm(path)
    rows = resampled(filtered)
    assert decodes() == 3
    assert rows == without(filtered, tmp_path)


def test_a_changed_setting_finds_no_stale_entry(
    filtered: Job, tmp_path: Path, decodes: Decodes
) -> None:
    changed = replace(filtered, resample=filtered.resample.model_copy(update={"mono": "first"}))
    rows = resampled(changed)
    assert decodes() == 6
    assert rows == without(changed, tmp_path)
    assert len(entries(filtered)) == 6


def test_what_is_dropped_stored_or_too_much_is_not_handed_over(
    filtered: Job, tmp_path: Path
) -> None:
    rows = resampled(filtered)

    def cut_again(name: str, **changes: Any) -> int:
        job = replace(filtered, scratch=tmp_path / name, **changes)
        units, _ = filter.todo(stage.view_of(replace(job, out=filtered.out), SHARD))
        assert len(units) == 6
        assert all(rows for rows in filter.compute(units, job))
        return len(entries(job))

    again = corpus.job(tmp_path, filter={"segmenter": {"use": "auto"}}).filter
    assert len(rows) == 6
    assert cut_again("stored", filter=again) == 0, "its PCM is there already"
    fresh = {"filter": again, "resample": filtered.resample.model_copy(update={"rate": 8000})}
    assert cut_again("fresh", **fresh) == 6
    assert cut_again("small", **fresh, cache_bytes=1) == 0
    strict = corpus.job(tmp_path, filter={**corpus.filters(max=0.7), "segmenter": {"use": "auto"}})
    assert cut_again("dropped", **{**fresh, "filter": strict.filter}) == 2


def test_a_recording_that_changes_takes_its_entries_back(filtered: Job, tmp_path: Path) -> None:
    job = replace(filtered, out=tmp_path / "other", scratch=tmp_path / "elsewhere")
    job.out.mkdir()
    pipeline.run_shard_stage(job, Here(), tmp_path / "listing")
    corpus.add(tmp_path / "in", 2, seed=99)
    stage.run("filter", job, SHARD)
    assert len(entries(job)) == 5


def test_what_cannot_be_converted_fails_in_its_own_stage(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 4)
    (tmp_path / "out").mkdir()
    job = corpus.job(tmp_path, scratch=tmp_path / "scratch", resample={"mono": 1})
    pipeline.run_shard_stage(job, Here(), tmp_path / "listing")
    stage.run("filter", job, SHARD)
    assert len(entries(job)) == 1, "one recording of four has a second channel"
    stage.run("resample", job, SHARD)
    rows = manifest.read(job.out, "resample", SHARD)[-1].table.to_pylist()
    assert sorted(str(row["error_code"]) for row in rows) == ["None", *3 * ["unsupported"]]


@pytest.mark.full
def test_isolated_items_are_not_converted_by_filter(filtered: Job, tmp_path: Path) -> None:
    job = replace(filtered, out=tmp_path / "other", scratch=tmp_path / "elsewhere")
    job.out.mkdir()
    pipeline.run_shard_stage(job, Here(), tmp_path / "listing")
    stage.run("filter", job, SHARD, isolate=True)
    assert entries(job) == []


@pytest.mark.parametrize("room", [64 << 20, 70_000, 0])
def test_in_one_call_pcm_stays_in_memory_as_far_as_there_is_room(
    tmp_path: Path, decodes: Decodes, monkeypatch: pytest.MonkeyPatch, room: int
) -> None:
    corpus.make(tmp_path / "in", 6)
    (tmp_path / "out").mkdir()
    job = corpus.job(tmp_path, scratch=tmp_path / "scratch", resample={"rate": 11025})
    pipeline.run_shard_stage(job, Here(), tmp_path / "listing")
    monkeypatch.setattr(handover, "MOST_IN_MEMORY", room)
    with handover.in_memory(job):
        stage.run("filter", job, SHARD)
        in_files = len(entries(job))
        memory = handover._memory.get()
        assert memory is not None
        assert memory.room == room - sum(samples.nbytes for samples in memory.held.values())
        assert len(memory.held) + in_files == 6
        before = decodes()
        rows = resampled(job)
        assert (memory.held, memory.room) == ({}, room)
    assert (in_files == 0) == (room == 64 << 20)
    assert (in_files == 6) == (room == 0)
    assert decodes() == before
    assert entries(job) == []
    assert rows == without(job, tmp_path)


def test_what_memory_held_is_lost_with_the_call(tmp_path: Path, decodes: Decodes) -> None:
    corpus.make(tmp_path / "in", 6)
    (tmp_path / "out").mkdir()
    job = corpus.job(tmp_path, scratch=tmp_path / "scratch", resample={"rate": 11025})
    pipeline.run_shard_stage(job, Here(), tmp_path / "listing")
    with handover.in_memory(job):
        stage.run("filter", job, SHARD)
    assert entries(job) == []
    before = decodes()
    rows = resampled(job)
    assert decodes() == before + 6
    assert rows == without(job, tmp_path)


def test_without_a_cache_nothing_is_held(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    (tmp_path / "out").mkdir()
    job = corpus.job(tmp_path, scratch=tmp_path / "scratch", cache_bytes=0)
    pipeline.run_shard_stage(job, Here(), tmp_path / "listing")
    with handover.in_memory(job):
        stage.run("filter", job, SHARD)
        memory = handover._memory.get()
        assert memory is not None
        assert (memory.held, memory.room) == ({}, 0)
    assert entries(job) == []


def test_memory_gives_back_what_is_dropped_discarded_or_there_twice(filtered: Job) -> None:
    clip = Clip.of(np.zeros((1000, 1), np.float32), 11_025)
    with handover.in_memory(filtered):
        memory = handover._memory.get()
        assert memory is not None
        one = handover.Writer(filtered, "one")
        one.add(0, 1000, clip)
        one.drop(0, 1000)
        one.add(0, 1000, clip)
        one.discard()
        one.publish()
        assert (memory.held, memory.room) == ({}, handover.MOST_IN_MEMORY)
        for _ in range(2):  # equal recordings
            one.add(0, 1000, clip)
            one.publish()
        assert memory.room == handover.MOST_IN_MEMORY - 2000
        two = handover.Writer(filtered, "two")
        two.add(0, 1000, clip)
        two.add(0, 1000, clip)  # a span that is given twice
        assert memory.room == handover.MOST_IN_MEMORY - 4000
        two.discard()
        assert memory.room == handover.MOST_IN_MEMORY - 2000
        name = recipe.of_audio(filtered.resample, "one", 0, 1000)
        assert handover.holds(filtered, name)
        assert handover.take(filtered, name) is not None
        assert (memory.held, memory.room) == ({}, handover.MOST_IN_MEMORY)


def test_a_clip_in_pieces_gives_the_same_pcm(filtered: Job) -> None:
    samples = np.random.default_rng(0).standard_normal((50_000, 2), np.float32) / np.float32(4)
    pieces = [samples[:1], samples[1:30_000], samples[30_000:]]
    whole = pcm.of_clip(Clip.of(samples, 44_100), filtered.resample)
    clip = Clip.of_pieces(pieces, 44_100)
    assert np.array_equal(pcm.of_clip(clip, filtered.resample), whole)
    assert np.array_equal(clip.samples(), samples)
    handed = handover.Writer(filtered, "content")
    handed.add(0, len(samples), clip)
    handed.publish()
    name = recipe.of_audio(filtered.resample, "content", 0, len(samples))
    held = handover.take(filtered, name)
    assert held is not None
    assert np.array_equal(held[0], whole)
    assert handover.take(filtered, name) is None


def test_what_is_pending_counts_and_a_dead_workers_is_removed(
    filtered: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = replace(filtered, cache_bytes=sum(p.stat().st_size for p in entries(filtered)) + 3000)
    clip = Clip.of(np.zeros((1000, 1), np.float32), 11_025)
    one, two = handover.Writer(job, "one"), handover.Writer(job, "two")
    monkeypatch.setattr(handover, "_room", DiskBudget())
    one.add(0, 1000, clip)  # 2,032 bytes, pending
    handover._room.looked = float("-inf")  # a second later
    two.add(0, 1000, clip)
    assert len(entries(job)) == 7, "there was no room for the second"
    one.discard()
    assert len(entries(job)) == 6
    dead = entries(job)[0].with_suffix(f".{2**22 + 1}{PENDING}")
    dead.write_bytes(bytes(5000))
    handover._room.looked = float("-inf")
    two.add(0, 1000, clip)
    assert not dead.exists()
    assert len(entries(job)) == 7
    two.drop(0, 1000)
    assert len(entries(job)) == 6


@pytest.mark.parametrize("error", [ItemError("decode_error", "x"), MemoryError(), KeyError("bug")])
def test_a_recording_that_fails_leaves_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    corpus.make(tmp_path / "in", 3)
    (tmp_path / "out").mkdir()
    job = corpus.job(tmp_path, scratch=tmp_path / "scratch")
    pipeline.run_shard_stage(job, Here(), tmp_path / "listing")
    real = handover.Writer.add

    def broken(self: handover.Writer, *given: Any) -> None:
        real(self, *given)
        assert self._made
        raise error

    monkeypatch.setattr(handover.Writer, "add", broken)
    with suppress(KeyError):
        stage.run("filter", job, SHARD)
    assert entries(job) == []
