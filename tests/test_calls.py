"""How long the workers' calls may take that are no stage, and a store that goes away at the end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from flows.run.calls import audio_of
from tasks import package, shard
from tasks.checkpoints.index import Index
from tasks.dataset import versions
from tasks.errors import RunError
from tasks.packaging import shards
from tests import corpus


def test_the_audio_that_a_call_is_given_time_for(tmp_path: Path) -> None:
    job = corpus.job(tmp_path, package={"tar_hours": 0.5})
    assert audio_of(shard.probe, (job, tmp_path, 0, 50)) == 0.0  # item_timeout, and no more
    assert audio_of(shards.write, (job, tmp_path, 3)) == 1800.0
    assert audio_of(package.gather, (job, [], tmp_path)) == 3600.0


@pytest.mark.parametrize("away", [(Index, "note"), (versions, "point_latest")])
def test_a_store_that_is_away_after_nothing_new_fails_no_run(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    away: tuple[Any, str],
    caplog: pytest.LogCaptureFixture,
) -> None:
    corpus.make(tmp_path / "in", 2)
    job = corpus.job(tmp_path)
    first, _ = corpus.run(job)
    if away[0] is Index:  # so that all is gathered, and noted again
        (job.out / "manifests/index.json").unlink()

    def gone(*_: object) -> None:
        raise RunError(f"{job.out} does not answer")

    monkeypatch.setattr(*away, gone)
    again, counts = corpus.run(job)
    assert again.path == first.path
    assert not again.new
    assert counts["transcribe"] == (0, 2)
    assert "cannot be reached" in caplog.text
