"""The filter stage converts what passes while it decodes: the same bytes as if resample decoded."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import corpus
from uttermill.tasks import audio, pipeline
from uttermill.tasks.audio import Clip
from uttermill.tasks.base.errors import ItemError
from uttermill.tasks.recording import Locator
from uttermill.tasks.recording.limits import Limits
from uttermill.tasks.runs.executor import Here
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.stages import cutting, filter, pcm, stage
from uttermill.tasks.stages.pcm import Conversion

SHARD = "shard-000000"
Decodes = Callable[[], int]


def listed(home: Path, count: int = 6, out: str = "out", **changes: Any) -> Job:
    """A job whose shard of recordings, some in two channels, is listed."""
    corpus.make(home / "in", count)
    (home / out).mkdir()
    job = corpus.job(
        home, out=home / out, scratch=home / "scratch", **{"resample": {"rate": 11025}, **changes}
    )
    pipeline.run_shard_stage(job, Here(), home / "listing")
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


def stored(job: Job) -> list[tuple[str, str | None, str | None]]:
    """(recipe, sha256, error) of all rows of PCM."""
    parts = manifest.read(job.out, "resample", SHARD)
    rows = [row for part in parts for row in part.table.to_pylist()]
    return sorted((row["audio"], row["sha256"], row["error_code"]) for row in rows)


def apart(home: Path, job: Job) -> list[tuple[str, str | None, str | None]]:
    """The rows of stages that each decode by themselves."""
    alone = replace(job, out=home / "apart", cache_bytes=0)
    alone.out.mkdir()
    pipeline.run_shard_stage(alone, Here(), home / "listing")
    assert stage.run("filter", alone, SHARD).converted == 0
    assert stored(alone) == []
    stage.run("resample", alone, SHARD)
    return stored(alone)


def test_nothing_is_decoded_twice(
    tmp_path: Path, decodes: Decodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pcm, "IN_MEMORY", 20_000)  # longer clips wait in a file
    job = listed(tmp_path)
    before = decodes()
    done = stage.run("filter", job, SHARD)
    assert (done.computed, done.converted) == (6, 6)
    assert done.converted_seconds == pytest.approx(sum(map(corpus.seconds_of, range(6))), abs=0.01)
    assert decodes() == before + 6
    done = stage.run("resample", job, SHARD)
    assert (done.computed, done.reused) == (0, 6)
    assert decodes() == before + 6
    assert [*(tmp_path / "scratch").iterdir()] == []
    rows = stored(job)
    assert len(rows) == 6
    assert rows == apart(tmp_path, job)


@pytest.mark.full
def test_what_filter_made_counts_as_computed_by_resample(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 3)
    _, counts = corpus.run(corpus.job(tmp_path))
    assert counts["filter"] == counts["resample"] == (3, 0)
    _, counts = corpus.run(corpus.job(tmp_path))
    assert counts["filter"] == counts["resample"] == (0, 3)
    _, counts = corpus.run(corpus.job(tmp_path, resample={"rate": 8000}))
    assert (counts["filter"], counts["resample"]) == ((0, 3), (3, 0))


def test_a_changed_setting_computes_the_pcm_alone(tmp_path: Path, decodes: Decodes) -> None:
    job = listed(tmp_path)
    stage.run("filter", job, SHARD)
    old = stored(job)
    changed = replace(job, resample=job.resample.model_copy(update={"mono": "first"}))
    before = decodes()
    assert stage.run("resample", changed, SHARD).computed == 6
    assert decodes() == before + 6
    assert [row for row in stored(changed) if row not in old] == apart(tmp_path, changed)


def test_what_is_dropped_stored_or_too_much_is_not_converted(tmp_path: Path) -> None:
    job = listed(tmp_path)
    stage.run("filter", job, SHARD)

    def converted(**changes: Any) -> int:
        again = replace(job, **changes)
        units, _ = filter.todo(stage.view_of(again, SHARD))
        assert len(units) == 6
        rows = [row for found in filter.compute(units, again) for row in found]
        return sum("audio" in row for row in rows)

    auto = corpus.job(tmp_path, filter={"segmenter": {"use": "auto"}}).filter
    assert converted(filter=auto) == 0, "its PCM is there already"
    other = {"filter": auto, "resample": job.resample.model_copy(update={"rate": 8000})}
    assert converted(**other) == 6
    assert converted(**other, cache_bytes=0) == 0
    assert converted(**other, cache_bytes=10_000) == 2, "0.4 and 0.6 s"
    strict = corpus.job(tmp_path, filter={**corpus.filters(max=0.7), "segmenter": {"use": "auto"}})
    assert converted(**{**other, "filter": strict.filter}) == 2


def test_a_recording_that_changes_meanwhile_stores_nothing(tmp_path: Path) -> None:
    job = listed(tmp_path)
    corpus.add(tmp_path / "in", 2, seed=99)
    assert stage.run("filter", job, SHARD).converted == 5
    assert len(stored(job)) == 5


def test_what_cannot_be_converted_fails_in_its_own_stage(tmp_path: Path) -> None:
    job = listed(tmp_path, 4, resample={"mono": 1})
    assert stage.run("filter", job, SHARD).converted == 4
    codes = [error for *_, error in stored(job)]
    assert sorted(map(str, codes)) == ["None", *3 * ["unsupported"]]
    assert stored(job) == apart(tmp_path, job)


@pytest.mark.full
def test_isolated_items_are_not_converted_by_filter(tmp_path: Path) -> None:
    job = listed(tmp_path, 2)
    assert stage.run("filter", job, SHARD, isolate=True).converted == 0
    assert stored(job) == []
    assert stage.run("resample", job, SHARD).computed == 2


def test_without_room_on_the_disk_resample_decodes_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    job = listed(tmp_path)
    real = Conversion._write

    def full(self: Conversion, samples: Any) -> int:
        if len(samples) > 8_000:
            raise OSError(28, "No space left on device")
        return real(self, samples)

    monkeypatch.setattr(pcm, "IN_MEMORY", 0)
    monkeypatch.setattr(Conversion, "_write", full)
    assert stage.run("filter", job, SHARD).converted == 2
    assert stage.run("resample", job, SHARD).computed == 4
    monkeypatch.undo()
    assert stored(job) == apart(tmp_path, job)


@pytest.mark.parametrize("error", [ItemError("decode_error", "x"), MemoryError()])
def test_a_recording_that_fails_leaves_no_pcm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    job = listed(tmp_path, 3)

    def broken(*_: Any) -> None:
        raise error

    monkeypatch.setattr(cutting, "after_all", broken)
    assert stage.run("filter", job, SHARD).converted == 0
    assert stored(job) == []


@pytest.mark.parametrize("in_memory", [1 << 23, 0, 70_000])
def test_a_span_given_twice_is_converted_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, in_memory: int
) -> None:
    monkeypatch.setattr(pcm, "IN_MEMORY", in_memory)
    samples = np.random.default_rng(0).standard_normal((50_000, 2), np.float32) / np.float32(4)
    job = corpus.job(tmp_path, scratch=tmp_path / "scratch")
    clip = Clip.of_pieces([samples[:1], samples[1:30_000], samples[30_000:]], 44_100)
    with Conversion(job, "c/a.wav", "content", ()) as clips:
        clips.add(0, 50_000, clip)
        clips.add(0, 50_000, clip)
        clips.add(0, 0, Clip.from_samples(np.zeros((0, 2), np.float32), 44_100))
        clips.add(5, 9, Clip.from_samples(np.full((4, 1), np.nan, np.float32), 44_100))
        clips.add(9, 14, Clip.from_samples(np.zeros((5, 1), np.float32), 44_100))
        clips.add(50_000, 100_000, clip)
        clips.drop(9, 14)
        whole, empty, broken, again = clips.rows()
    assert np.array_equal(
        whole["pcm"], pcm.of_clip(Clip.from_samples(samples, 44_100), job.resample)
    )
    assert np.array_equal(again["pcm"], whole["pcm"])
    assert len(empty["pcm"]) == 0
    assert broken["error_code"] == "non_finite"
