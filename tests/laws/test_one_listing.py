"""A run lists each folder of checkpoints once; all that look share that listing."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from uttermill.tasks import pipeline
from uttermill.tasks.publish.outcomes import shard_batches
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store.index import ROOTS, Index

SHARDS: dict[str, Any] = {"hours": 0.0008, "settle_seconds": 0.0}
TWICE = "manifests/shard"  # for the names of all shards, and with what is in them


@pytest.fixture
def job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Job:
    """That has run; what the outcomes are on depends on one shard each."""
    monkeypatch.setattr(shard_batches, "AT_ONCE", 1)
    corpus.make(tmp_path / "in", 10)
    job = corpus.job(tmp_path, shard=SHARDS)
    corpus.run(job)
    return job


@contextmanager
def listings(out: Path) -> Iterator[Counter[str]]:
    """How often each folder of checkpoints is listed."""
    found: Counter[str] = Counter()
    with pytest.MonkeyPatch.context() as counting:
        real = os.scandir

        def scandir(path: Any) -> Any:
            name = str(path).removeprefix(f"{out}/")
            if name.startswith(ROOTS):
                found[name] += 1
            return real(path)

        counting.setattr(os, "scandir", scandir)
        yield found


def folders(out: Path) -> set[str]:
    found = [out / root for root in ROOTS]
    found += [shard for root in found for shard in root.iterdir()]
    return {path.relative_to(out).as_posix() for path in found}


@pytest.mark.full
def test_with_nothing_to_do(job: Job) -> None:
    with listings(job.out) as found:
        assert not corpus.run(job)[0].new
    assert found.keys() == folders(job.out)
    assert found.pop(TWICE) == 2
    assert set(found.values()) == {1}


@pytest.mark.nightly
def test_on_a_night(job: Job, tmp_path: Path) -> None:
    settled = folders(job.out) - {*ROOTS}
    corpus.add(tmp_path / "in", 12)
    with listings(job.out) as found:
        assert corpus.run(job)[0].new
    assert {name: found[name] for name in settled} == dict.fromkeys(settled, 1)
    assert {found[root] for root in ROOTS} - {found[TWICE]} == {1}


@pytest.mark.nightly
def test_a_shard_that_ran_is_listed_anew(job: Job, tmp_path: Path) -> None:
    index = Index(job.out)
    corpus.add(tmp_path / "in", 12)
    corpus.run(job)
    (new,) = (
        {Path(name).name for name in folders(job.out)}
        - {Path(name).parent.name for name in index.files}
        - {Path(root).name for root in ROOTS}
    )
    before = dict(index.files)
    index.look([new])
    assert index.files == Index(job.out).files
    assert len(index.files) == len(before) + 5
    index.look([new])
    assert index.files == Index(job.out).files


def test_what_a_dead_run_was_writing_is_removed(job: Job) -> None:
    newest = job.out / "datasets/v0001"
    homes = [
        job.out / "manifests", job.out / "manifests/filter/shard-000001", job.out / "audio",
        job.out / "audio/shard-000000", job.out / "manifests/package", newest, newest / "wenet",
        shard_batches.home(job.out), job.out / "datasets",
    ]  # fmt: skip
    left = [home / ".abc.tmp" for home in homes]
    for path in left:
        path.write_bytes(b"x")
    kept = job.out / "manifests/filter/shard-000001/abc.tmp"
    kept.write_bytes(b"x")
    assert pipeline.sweep(job.out, Index(job.out)) == len(left)
    assert not any(path.exists() for path in left)
    assert kept.exists()
    assert pipeline.sweep(job.out, Index(job.out)) == 0
