"""A file that changed behind its size and times: the guard holds the ctime, whoever decodes proves
the digest first, and each run hashes a share of all again."""

import os
from pathlib import Path

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus, tiers
from uttermill.tasks.base.schema import RECORDINGS
from uttermill.tasks.publish.upkeep import checkpoints
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.stages import stage
from uttermill.tasks.stages.listing import known_recordings
from uttermill.tasks.storage import local


def overwrite(path: Path, number: int) -> None:
    """Other audio of the same length, in place, with the times that the file had."""
    before = path.stat()
    other = corpus.add(path.parents[1] / "spare", number, seed=77).read_bytes()
    with path.open("r+b") as file:
        file.write(other)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
    after = path.stat()
    assert (before.st_size, before.st_ino) == (after.st_size, after.st_ino)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return corpus.make(tmp_path / "in", 6)


@pytest.mark.nightly
def test_a_file_that_changed_under_the_same_size_and_times(source: Path, tmp_path: Path) -> None:
    job = corpus.job(tmp_path)
    first, _ = corpus.run(job)
    overwrite(source / "r02.wav", 2)
    second, counts = corpus.run(job)
    assert counts["shard"] == (1, 5)
    assert counts["filter"] == (1, 5)
    fresh = corpus.run(corpus.job(tmp_path, out=tmp_path / "fresh"))[0]
    assert audio_of(second.path) == audio_of(fresh.path) != audio_of(first.path)


def audio_of(version: Path) -> dict[str, str]:
    table = pq.read_table(version / "utterances.parquet", columns=["id", "sha256"])
    return dict(zip(*(table[name].to_pylist() for name in ("id", "sha256")), strict=True))


@pytest.mark.full
@pytest.mark.parametrize("how", tiers.few(["touch", "chmod", "link", "rename"], "touch", "rename"))
def test_what_changes_no_bytes_computes_nothing(source: Path, tmp_path: Path, how: str) -> None:
    job = corpus.job(tmp_path)
    corpus.run(job)
    path = source / "r02.wav"
    if how == "touch":
        corpus.touch(path)
    elif how == "chmod":
        path.chmod(0o600)
    elif how == "link":
        os.link(path, tmp_path / "elsewhere.wav")
    else:
        path.rename(tmp_path / "away.wav")
        (tmp_path / "away.wav").rename(path)
    published, counts = corpus.run(job)
    assert counts["shard"] == (1, 5), "it is hashed again"
    assert not published.new
    assert [counts[name][0] for name in stage.PER_SHARD] == [0, 0, 0]


def test_all_shards_are_hashed_in_turn() -> None:
    for count, share in ((1, 0.03), (7, 0.03), (64, 0.03), (1000, 0.03), (10, 0.25), (5, 1.0)):
        shards = [f"shard-{number:06d}" for number in range(count)]
        runs = -(-1 // share)
        seen = set[str]()
        for number in range(1, round(runs) + 1):
            seen.update(known_recordings.due(shards, share, number))
        assert seen == {*shards}
        assert known_recordings.due(shards, 0.0, 5) == []


@pytest.mark.nightly
def test_a_share_is_hashed_again(
    source: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Here the ctime shows nothing: the listing has the guard of the changed file."""
    whole = {"shard": {"settle_seconds": 0.0, "rehash": 1.0}}
    job = corpus.job(tmp_path, **whole)
    corpus.run(job)
    overwrite(source / "r02.wav", 2)
    trusted(job, source)
    assert corpus.run(corpus.job(tmp_path))[1]["shard"] == (0, 6)
    found = checkpoints.verify(job.out)
    assert found.faults == [
        "c/r02.wav has changed under the same size and times since it was hashed"
    ]
    assert "shard.rehash=1" in str(checkpoints.remedy(found, job.out))
    published, counts = corpus.run(job)
    assert counts["shard"] == (1, 5)
    assert "1 recording has changed under the same size and times, such as c/r02.wav" in caplog.text
    assert published.new
    caplog.clear()
    again, counts = corpus.run(job)
    assert (again.new, counts["shard"]) == (False, (0, 6))
    assert "have changed" not in caplog.text


def trusted(job: Job, source: Path) -> None:
    """The listing with today's guards and former digests."""
    part = manifest.read(job.out, "shard", "shard-000000")[-1]
    rows = part.table.to_pylist()
    for row in rows:
        row["guard"] = local.stat_guard((source / row["path"]).stat())
    part.path.unlink()
    manifest.commit(job.out, "shard", "shard-000000", rows, RECORDINGS, {})
