"""Files that the newest version has lost: the next run makes them again with the same bytes, and
says so; commands name them."""

import json
import shutil
from pathlib import Path

import pytest

from tests.helpers import corpus, tiers
from uttermill.flows.cli import queries
from uttermill.flows.cli.show import runs
from uttermill.flows.run import plans
from uttermill.flows.settings import read as settings_read
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.publish import package
from uttermill.tasks.publish.dataset import datacard
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.storage import versions

TAR = {"tar_hours": 3.0 / 3600, "splits": {"test": 0.3}}
TARS, LIST = "wenet/train/shards_000000001.tar", "wenet/train/data.list"


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("lost")
    corpus.make(home / "in", 12)
    corpus.run(corpus.job(home, package=TAR))
    return home


@pytest.fixture
def home(first: Path) -> Path:
    """Each test leaves OUT as it was, which is what it tests."""
    return first


def newest(home: Path) -> Path:
    return home / "out/datasets/v0001"


@pytest.mark.full
@pytest.mark.parametrize(
    "names",
    tiers.few([(TARS,), (LIST,), ("README.md", "croissant.json"), (TARS, LIST)], (TARS, LIST)),
)
@pytest.mark.parametrize("cut", [False, True], ids=["gone", "cut"])
def test_what_is_lost_is_made_again(
    home: Path, names: tuple[str, ...], cut: bool, caplog: pytest.LogCaptureFixture
) -> None:
    version, whole = newest(home), corpus.content(newest(home))
    for name in names:
        (version / name).write_bytes(b"") if cut else (version / name).unlink()
    assert versions.lost(version) == sorted(names)
    if any(name.startswith("wenet/train/") for name in names):
        with pytest.raises(RunError, match=r"v0001 lacks wenet/.*; the next run makes"):
            queries.data_list(version, None)
    again, _ = corpus.run(corpus.job(home, package=TAR))
    assert (again.path, again.new, again.restored) == (version, False, sorted(names))
    assert f"{names[0]} of {version} is gone or cut short" in caplog.text
    assert corpus.content(version) == whole
    assert verify(version) == []
    assert [path.name for path in version.parent.iterdir() if path.name.startswith(".")] == []
    quiet, _ = corpus.run(corpus.job(home, package=TAR))
    assert (quiet.new, quiet.restored) == (False, [])


@pytest.mark.parametrize("name", ["utterances.parquet", "ledger.parquet", "splits.parquet"])
def test_a_lost_table_is_refused_with_the_remedy(home: Path, name: str) -> None:
    """The next version continues it."""
    version = newest(home)
    aside = home / name
    shutil.move(version / name, aside)
    with pytest.raises(RunError, match=rf"^{name} of v0001 is not the file .* restore the file"):
        corpus.run(corpus.job(home, package=TAR))
    shutil.move(aside, version / name)
    assert not corpus.run(corpus.job(home, package=TAR))[0].new


def test_a_changed_byte_of_a_table_is_refused_before_any_work(home: Path) -> None:
    name = "ledger.parquet"  # `plan` reads the other one
    path, new = newest(home) / name, corpus.add(home / "in", 50)
    whole = path.read_bytes()
    path.write_bytes(whole[:200] + bytes([whole[200] ^ 1]) + whole[201:])
    before = [*corpus.parts(home / "out")]
    settings = ("transcribe.backend.use=fake", "shard.settle_seconds=0")
    try:
        told = plans.make(settings_read(None, [str(home / "in")], str(home / "out"), settings))
        with pytest.raises(RunError) as raised:
            corpus.run(corpus.job(home, package=TAR))
    finally:
        path.write_bytes(whole)
        new.unlink()
    assert str(raised.value).startswith(f"{name} of v0001 is not the file that was published")
    assert told["refusal"] == str(raised.value)
    assert [*corpus.parts(home / "out")] == before


@pytest.mark.parametrize("change", ["a digit", "the one of another version"])
def test_another_dataset_json_is_refused(home: Path, change: str) -> None:
    """A count in it, or a size of a file, would be believed."""
    path = newest(home) / "dataset.json"
    whole = path.read_bytes()
    facts = json.loads(whole)
    if change == "a digit":
        count = b'"failed": %d' % facts["recordings"]["failed"]
        path.write_bytes(whole.replace(count, b'"failed": 7', 1))
    else:
        path.write_bytes(datacard.sealed({**facts, "version": 2}))
    assert path.read_bytes() != whole
    words = r"^dataset.json of v0001 is not the file .* restore the file"
    with pytest.raises(RunError, match=words):
        corpus.run(corpus.job(home, package=TAR))
    with pytest.raises(RunError, match=words):  # what a plan says of it
        package.lost(newest(home))
    path.write_bytes(whole)
    assert not corpus.run(corpus.job(home, package=TAR))[0].new


def test_a_version_that_is_gone_is_made_again_and_said(
    home: Path, caplog: pytest.LogCaptureFixture
) -> None:
    version, aside = newest(home), home / "aside"
    shutil.copytree(version, aside, symlinks=True)
    whole = corpus.content(version)
    shutil.rmtree(version)
    job = corpus.job(home, package=TAR)
    [gone] = planning.plan(job, job).gone
    assert gone == f"{version} is gone, which was the newest"
    again, _ = corpus.run(job)
    assert caplog.text.count(f"{gone}; what was in there is made again") == 1
    assert corpus.content(again.path) == corpus.content(aside) == whole
    caplog.clear()
    corpus.run(job)
    assert "gone" not in caplog.text


def test_without_any_checkpoint_a_plan_counts_each_recording_once(
    home: Path, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """It added what it expects of new recordings to the published clips."""
    shutil.copytree(home / "out", tmp_path / "out", symlinks=True)
    job = corpus.job(home, out=tmp_path / "out", package=TAR)
    shutil.rmtree(job.out / "manifests")
    plan = planning.plan(job, job)
    assert plan.clips == (12, 12)
    assert plan.gone == [f"all checkpoints of {job.out / 'datasets/v0001'} are gone"]
    assert (plan.stages["filter"].compute, plan.stages["package"].compute) == (12, 12)
    again, _ = corpus.run(job)
    assert (again.new, again.summary["utterances"]["packaged"]) == (False, 12)
    assert plan.gone[0] in caplog.text


def test_plans_name_what_is_lost() -> None:
    assert "lacks a.tar and 1 more" in runs.lost({"lost": ["a.tar", "b.tar"]})
