"""What-if, plan, estimate and a run give one answer to the question which clips are kept."""

from __future__ import annotations

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.tasks.insight.estimating import planning, what_if
from uttermill.tasks.publish import foreseen
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest

COUNT = 13


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Thirteen recordings of 0.4 to 2.8 s, one of them twice, after a run."""
    tmp = tmp_path_factory.mktemp("answers")
    corpus.make(tmp / "in", COUNT)
    shutil.copy(tmp / "in" / "r07.wav", tmp / "in" / "twin.wav")
    corpus.run(corpus.job(tmp))
    return tmp


def answers(job: Job, before: Job) -> dict[str, int]:
    """How many clips each of them says; the run comes last."""
    told = {"what-if": what_if.kept(before, job)[1]["items"]}
    told["plan"] = planning.plan(job, before).clips[1]
    with foreseen.version(job, manifest.shards(job.out)) as version:
        foreseen_ids = set(version.clips(["id"])["id"].to_pylist())
    published, _ = corpus.run(job)
    ids = set(pq.read_table(published.path / "utterances.parquet")["id"].to_pylist())
    assert foreseen_ids == ids
    return {**told, "run": len(ids)}


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        # Of 2.16 s: 9 of the first thirteen are shorter.
        ({"max_hours": 0.0006}, 9),
        ({"duplicate_files": "keep"}, 14),
    ],
)
def test_limits_of_the_filter_stage(
    base: Path, tmp_path: Path, changes: dict[str, Any], count: int
) -> None:
    shutil.copytree(base / "out", tmp_path / "out", symlinks=True)
    before = corpus.job(base, out=tmp_path / "out", package={"max_failed_fraction": 1.0})
    limits = before.filter.model_copy(update=changes)
    after = replace(before, filter=limits)
    assert answers(after, before) == dict.fromkeys(("what-if", "plan", "run"), count)
