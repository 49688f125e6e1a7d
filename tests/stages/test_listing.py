"""Listing sources in columns: what is known is compared without an object a file."""

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
import soundfile as sf

from tests.helpers import corpus, tiers
from uttermill.tasks import pipeline, plugins
from uttermill.tasks.audio import stream
from uttermill.tasks.runs.executor import Executor, Observer
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.stages import cutting
from uttermill.tasks.stages.listing import entries, known_recordings, shard_choice
from uttermill.tasks.stages.listing.skipped import Skipped, SkippedEntries
from uttermill.tasks.storage import queries


@pytest.mark.parametrize(
    "more",
    [
        {},
        {"text": 'a "b"\\ \n é 中 \x7f', "speaker": "s", "source_id": "1"},
        {"language": "de", "error_code": "missing", "error_detail": "no such file"},
        {"segments": []},
        {"rttm": [], "rttm_error": "x.rttm, line 1"},
        {"rttm": [{"start": 0.5, "end": 2.0, "speaker": "é"}]},
        {
            "segments": [
                {"start": 0.1, "end": None, "source_id": "k", "text": "é", "speaker": None,
                 "language": None}
            ]
        },
    ],
)  # fmt: skip
def test_what_a_source_says_is_hashed_and_nothing_else(more: dict[str, Any]) -> None:
    row = {
        "recording": "c/a é.wav", "dataset": "c", "path": "a é.wav", "source_path": "/in/a é.wav",
        "locator": '{"path": "/in/a \\u00e9.wav"}', "source_id": None, "text": None,
        "speaker": None, "language": None, "segments": None, "present": True,
        "error_code": None, "error_detail": None,
    } | more  # fmt: skip
    hashed = entries.listed(row)
    assert entries.listed({**row, "guard": "1", "size": 7}) == hashed
    for name in entries.DESCRIBED:
        other: Any = [] if name in ("segments", "rttm") and row.get(name) != [] else "another"
        if name not in ("segments", "rttm") or other == []:
            assert entries.listed({**row, name: other}) != hashed, name


@pytest.mark.full
@pytest.mark.parametrize(
    ("hours", "known", "count"),
    [
        (64, 0, 64),
        tiers.nightly(20_000, 0, 20_000),
        tiers.nightly(100_000, 0, 20_000),
        (250, 19_750, 250),
        (10_000, 90_000, 2000),
        (10, 100_000, 64),
    ],
)
def test_shards_of_a_very_large_corpus_are_longer(hours: int, known: int, count: int) -> None:
    """A night's are never longer than a 64th of it, so that workers share them."""
    lengths = np.full(hours * 8, 450.0)
    names = pa.array([f"{number:07d}" for number in range(len(lengths))])
    assert shard_choice.assigned(lengths, names, None, known_seconds=known * 3600.0)[1] == count


@pytest.mark.parametrize(
    ("lengths", "hours", "groups"),
    [
        # One of an hour made fifty groups of one recording each.
        ([3600.0] + [10.0] * 49, None, 1 + 8),
        ([3600.0] * 3 + [10.0] * 600, None, 3 + 23),
        ([7200.0, 20.0, 20.0], None, 1),  # too little for a group of its own
        ([90.0] * 10 + [10.0] * 12, None, 10 + 2),
        ([10.0] * 60, None, 10),
        ([36_000.0] + [600.0] * 12, 1.0, 1 + 2),
        ([5.0], None, 1),
        ([], None, 0),
    ],
)
def test_a_long_recording_fills_one_group(
    lengths: list[float], hours: float | None, groups: int
) -> None:
    names = pa.array([f"{number:03d}" for number in range(len(lengths))], pa.string())
    group, count = shard_choice.assigned(np.array(lengths), names, hours)
    assert count == groups
    assert set(group.tolist()) == set(range(groups))
    loads = np.bincount(group, np.array(lengths), groups)
    alone = max(lengths, default=0.0)
    if alone >= 3600 and groups > 1:
        assert np.bincount(group[np.array(lengths) == alone], minlength=groups).max() == 1
        assert loads.max() == alone, "nothing short lies beside it"


def test_left_aside_is_a_list() -> None:
    left = SkippedEntries()
    entries = [Skipped("c", f"/in/é{n}", "hidden" if n % 2 else "extension") for n in range(7)]
    for entry in entries:
        left.append(entry)
    assert [*left] == entries
    assert left.reasons == {"extension": 4, "hidden": 3}
    other = SkippedEntries()
    other.append(entries[0])
    other.extend(left)
    assert list(other) == [entries[0], *entries]
    assert other.reasons == {"extension": 5, "hidden": 3}


@pytest.fixture
def batched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also rows of small OUTs go by several files."""
    monkeypatch.setattr(known_recordings, "ROWS", 4)
    monkeypatch.setattr(queries, "AT_ONCE", 5)
    monkeypatch.setattr(queries, "HELD", 0)
    monkeypatch.setattr(queries, "FEW", 0)


def sharded(tmp: Path) -> Any:
    job = corpus.job(tmp, shard={"settle_seconds": 0, "hours": 4 / 3600})
    return job, pipeline.sharded(job, Executor(), Observer())


def rows(out: Path) -> dict[str, dict[str, Any]]:
    return {
        row["recording"]: {**row, "shard": name}
        for name in manifest.shards(out)
        for row in manifest.read(out, "shard", name)[-1].table.to_pylist()
    }


def test_what_changes_touches_its_own_shards_alone(tmp_path: Path, batched: None) -> None:
    folder = tmp_path / "in"
    corpus.make(folder, 11)
    job, _ = sharded(tmp_path)
    before = rows(job.out)
    files = {p: p.stat().st_mtime_ns for p in (job.out / "manifests/shard").rglob("*.parquet")}
    wavs = sorted(p for p in folder.rglob("*") if p.is_file())
    assert len(wavs) == len(before) == 11
    gone, moved, grown = wavs[0], wavs[1], wavs[2]
    gone.unlink()
    moved.rename(folder / f"moved{moved.suffix}")
    grown.write_bytes(wavs[3].read_bytes())
    _, found = sharded(tmp_path)
    after = rows(job.out)
    name = {Path(row["source_path"]).name: key for key, row in after.items()}
    assert found.done.computed == 2
    assert not after[name[gone.name]]["present"]
    assert not after[name[moved.name]]["present"]
    assert after[name[f"moved{moved.suffix}"]]["shard"] == before[name[moved.name]]["shard"]
    assert after[name[grown.name]]["content"] == after[name[wavs[3].name]]["content"]
    touched = {before[name[p.name]]["shard"] for p in (gone, moved, grown)}
    for path, mtime in files.items():
        assert path.exists() == (path.parent.name not in touched)
        assert not path.exists() or path.stat().st_mtime_ns == mtime
    last = corpus.surveyed(job)
    assert (last.reused, last.fresh.count, len(last.gone)) == (10, 0, 0)


def test_many_rows_go_to_their_shards_by_way_of_the_disk(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same shards, whether all sorted rows come at once or some at a time."""
    corpus.make(tmp_path / "in", 23)
    _, whole = sharded(tmp_path)
    at_once = rows(tmp_path / "out")
    (tmp_path / "out").rename(tmp_path / "out1")
    monkeypatch.setattr(queries, "AT_ONCE", 5)
    monkeypatch.setattr(queries, "HELD", 0)
    monkeypatch.setattr(queries, "FEW", 0)
    monkeypatch.setattr(known_recordings, "ROWS", 4)
    _, parted = sharded(tmp_path)
    assert rows(tmp_path / "out") == at_once
    assert parted.shards == whole.shards


def test_a_recording_that_is_listed_twice_is_left_aside_once(
    tmp_path: Path, batched: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.make(tmp_path / "in", 3)
    folder = plugins.SOURCES.load("folder")
    real = folder.recordings

    def twice(settings: Any) -> Any:
        found = list(real(settings))
        return iter([*found, found[1]])

    monkeypatch.setattr(folder, "recordings", twice)
    for _ in range(2):  # when they are new, and when they are known
        job, found = sharded(tmp_path)
        assert [*found.skipped] == [
            Skipped("c", str(tmp_path / "in" / "r01.wav"), "duplicate_path")
        ]
        assert len(rows(job.out)) == 3
        assert all(row["present"] for row in rows(job.out).values())


def test_broken_recordings_are_counted(tmp_path: Path) -> None:
    corpus.make(tmp_path / "in", 8)
    for name in ("x.wav", "y.wav"):
        (tmp_path / "in" / name).write_bytes(b"no audio")
    _, found = sharded(tmp_path)
    assert (found.listed.recordings, found.listed.failed) == (10, 2)
    named = [Path(each.source_path).name for each in found.listed.first]
    assert named == ["x.wav", "y.wav"], "they are more than max_failed_fraction"
    job = corpus.job(tmp_path, package={"max_failed_fraction": 0.5})
    again = pipeline.sharded(job, Executor(), Observer())
    assert (again.listed.recordings, again.listed.failed, again.listed.first) == (10, 2, [])


# A clip that is too long for memory is decoded once: it lies in a temporary file.


RATE = 8_000
SECONDS = 150.0  # more than `cutting.HELD_SECONDS`
WHOLE = {
    "segmenter": {"use": "whole"},
    "filters": [{"use": "duration", "max": None}, {"use": "silence"}, {"use": "clipping"}],
}
NO_ASR = {"backend": {"use": "none"}, "verdicts": []}


def recording(path: Path, seconds: float = SECONDS, seed: int = 0) -> Path:
    rng = np.random.default_rng(seed)
    count = int(seconds * RATE)
    envelope = np.repeat(rng.uniform(0, 0.3, count // 4000 + 1), 4000)[:count]
    path.parent.mkdir(parents=True, exist_ok=True)
    sf.write(path, rng.standard_normal((count, 2)) * envelope[:, None], RATE, "PCM_16")
    return path


@pytest.fixture
def opened(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many samples were decoded each time that a recording was opened to be decoded."""
    found: list[int] = []
    blocks = stream.Stream.blocks

    def counted(self: stream.Stream, *args: Any) -> Any:
        found.append(0)
        for block in blocks(self, *args):
            found[-1] += len(block)
            yield block

    monkeypatch.setattr(stream.Stream, "blocks", counted)
    return found


def job(home: Path, **more: Any) -> Job:
    chosen = {"filter": WHOLE, "transcribe": NO_ASR, "resample": {"rate": 16_000}, **more}
    return corpus.job(home, scratch=home / "scratch", **chosen)


def published(home: Path) -> tuple[dict[str, Any], bytes]:
    [row] = corpus.utterances(home / "out/datasets/latest")
    return row, corpus.parts(home / "out", "audio")[0].read_bytes()


def test_a_whole_recording_is_decoded_once(tmp_path: Path, opened: list[int]) -> None:
    recording(tmp_path / "in/long.wav")
    corpus.run(job(tmp_path))
    assert opened == [int(SECONDS * RATE)]


@pytest.mark.full
def test_the_numbers_and_samples_are_those_of_separate_decodes(
    tmp_path: Path, opened: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    recording(tmp_path / "in/long.wav")
    corpus.run(job(tmp_path))
    row, pcm = published(tmp_path)
    (tmp_path / "again").mkdir()
    (tmp_path / "again/in").symlink_to(tmp_path / "in")
    opened.clear()
    monkeypatch.setattr(cutting, "HELD_BYTES", 0)
    corpus.run(job(tmp_path / "again"))
    assert len(opened) == 5, "the cut, silence, clipping in two passes, and the PCM"
    other, pcm_again = published(tmp_path / "again")
    assert row | {"source_path": ""} == other | {"source_path": ""}
    assert pcm == pcm_again


def test_resample_decodes_a_long_clip_once_too(tmp_path: Path, opened: list[int]) -> None:
    recording(tmp_path / "in/long.wav")
    corpus.run(job(tmp_path, cache_bytes=100_000))
    assert opened == 2 * [int(SECONDS * RATE)]


@pytest.mark.full
def test_a_recording_that_breaks_leaves_nothing(tmp_path: Path) -> None:
    path = recording(tmp_path / "in/long.wav")
    data = path.read_bytes()
    path.write_bytes(data[: len(data) - 40_000])  # its header promises more
    recording(tmp_path / "in/short.wav", 2.0, seed=1)
    corpus.run(job(tmp_path, package={"max_failed_fraction": 1.0}))
    rows = corpus.utterances(tmp_path / "out/datasets/latest")
    assert [row["source_path"] for row in rows] == [str(tmp_path / "in/short.wav")]
