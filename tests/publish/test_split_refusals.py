"""Speakers that become known after splits were drawn: what would empty a split, or take too much
of the last version, is refused; plan says so, and each way out does what it says."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job

REFUSED = "would be dropped, because clips that have to stay together are in two splits"


def source_of(home: Path) -> dict[str, str]:
    return {"kind": "folder", "path": str((home / "in").resolve()), "name": "c"}


def job(home: Path, speaker: str = "none", **package: Any) -> Job:
    source = {**source_of(home), "speaker": speaker}
    package = {"splits": {"test": 0.4}, **package}
    return corpus.job(home, sources=[source], package=package)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A version with splits by recording, of eight speakers who turn out to be in two splits, and
    of eight recordings of nobody else."""
    home = tmp_path_factory.mktemp("refusals")
    for number in range(8):
        corpus.add(home / "in" / f"alone{number}", number, seed=number)
        corpus.add(home / "in" / f"twice{number // 4}", number, seed=50 + number)
    corpus.run(job(home))
    return home


@pytest.fixture
def home(made: Path, tmp_path: Path) -> Path:
    """The same sources, and a copy of OUT that a test may change."""
    shutil.copytree(made / "out", tmp_path / "out", symlinks=True)
    (tmp_path / "in").symlink_to(made / "in")
    return tmp_path


def splits_of(version: Path) -> dict[str, set[str]]:
    """The speakers of each split."""
    rows = pq.read_table(version / "utterances.parquet", columns=["split", "speaker"]).to_pylist()
    names = {row["split"] for row in rows}
    return {name: {row["speaker"] for row in rows if row["split"] == name} for name in names}


def test_too_much_is_refused_and_planned(home: Path) -> None:
    known = job(home, "parent_folder")
    plan = planning.plan(known, job(home))
    assert plan.refusal is not None
    assert REFUSED in plan.refusal
    for way in ("split_conflicts=keep_larger", "resplit=true", "max_removed_fraction=1"):
        assert f"package.{way}" in plan.refusal
    with pytest.raises(RunError) as refused:
        corpus.run(known)
    assert str(refused.value) == plan.refusal
    assert [path.name for path in (home / "out/datasets").glob("v*")] == ["v0001"]


def test_the_larger_side_stays(home: Path) -> None:
    larger = {"split_conflicts": "keep_larger", "max_removed_fraction": 0.5}
    known = job(home, "parent_folder", **larger)
    plan = planning.plan(known, job(home))
    assert plan.refusal is None
    published, _ = corpus.run(known)
    speakers = splits_of(published.path)
    assert {"twice0", "twice1"} <= speakers["train"] | speakers["test"]
    assert not speakers["train"] & speakers["test"]
    count = pq.read_metadata(published.path / "utterances.parquet").num_rows
    assert 8 < count < 16
    assert plan.clips == (16, count)
    again, _ = corpus.run(known)
    assert again.path == published.path


def test_drawn_again_nothing_is_lost(home: Path) -> None:
    known = job(home, "parent_folder", resplit=True)
    plan = planning.plan(known, job(home))
    assert plan.clips == (16, 16)
    published, stages = corpus.run(known)
    assert stages["package"] == (plan.stages["package"].compute, plan.stages["package"].reuse)
    speakers = splits_of(published.path)
    assert speakers.keys() == {"train", "test"}
    assert not speakers["train"] & speakers["test"]


def test_an_emptied_split_is_refused(home: Path) -> None:
    """Whatever the cause: here a limit that only the shortest clips pass."""
    short = {"filter": corpus.filters(max=corpus.seconds_of(0) + 0.001)}
    few = corpus.job(home, sources=[source_of(home)], package={"splits": {"test": 0.4}}, **short)
    before = splits_of(home / "out/datasets/v0001")
    assert before.keys() == {"train", "test"}
    plan = planning.plan(few, job(home))
    with pytest.raises(RunError, match="would be empty; draw all splits again") as refused:
        corpus.run(few)
    assert str(refused.value) == plan.refusal


def test_what_is_computed_anew_empties_no_split(home: Path) -> None:
    """Clips that no run has cut yet are in no split, and plan refuses nothing for that."""
    cut = {"filter": corpus.filters() | {"segmenter": {"use": "auto"}}}
    other = corpus.job(home, sources=[source_of(home)], package={"splits": {"test": 0.4}}, **cut)
    plan = planning.plan(other, job(home))
    assert plan.stages["filter"].compute == 16
    assert plan.refusal is None
    corpus.run(other)


def test_only_who_finds_speakers_is_told_of_them(made: Path) -> None:
    alone, named = job(made), replace(job(made), speakers=Plugin(use="given"))
    came = "splits were drawn without the speakers that this run finds"
    assert any(came in sentence for sentence in planning.plan(named, alone).stated)
    assert not any(came in sentence for sentence in planning.plan(alone, named).stated)
