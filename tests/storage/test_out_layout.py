"""An OUT of another layout: a run computes everything once again, and looking commands say so."""

import json
import logging
import shutil
from dataclasses import replace
from pathlib import Path

import pytest

from tests.helpers import corpus
from tests.helpers.tiers import nightly
from uttermill.flows import cli
from uttermill.flows.run import plans
from uttermill.flows.settings import read
from uttermill.tasks.publish.dataset import datacard
from uttermill.tasks.storage import versions

SETS = ("transcribe.backend.use=fake", "shard.settle_seconds=0")


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("layout")
    corpus.make(home / "in", 3)
    corpus.run(corpus.job(home))
    return home


@pytest.fixture(params=[nightly("0 0\n"), None])
def other(made: Path, tmp_path: Path, request: pytest.FixtureRequest) -> Path:
    """A copy of which another release wrote OUT; the parameter: what its layout's file holds, None
    for one that lost it, which its newest version tells."""
    shutil.copytree(made, tmp_path / "copy", symlinks=True)
    note = tmp_path / "copy/out" / versions.LAYOUT_FILE
    if request.param is not None:
        note.write_text(request.param)
        return tmp_path / "copy"
    note.unlink()
    path = tmp_path / "copy/out/datasets/v0001/dataset.json"
    described = json.loads(path.read_bytes())
    described["recipes"]["layout"] = 0
    path.write_bytes(datacard.sealed(described))
    return tmp_path / "copy"


@pytest.mark.parametrize("left", ["", "2", nightly("2 0"), nightly("?")])
def test_a_lost_layout_costs_nothing(made: Path, tmp_path: Path, left: str) -> None:
    """Nor one that is cut short: the newest version tells its layout."""
    shutil.copytree(made / "out", tmp_path / "out", symlinks=True)
    note = tmp_path / "out" / versions.LAYOUT_FILE
    whole = note.read_bytes()
    note.write_text(left) if left else note.unlink()
    assert not versions.other_layout(tmp_path / "out")
    published, counts = corpus.run(replace(corpus.job(made), out=tmp_path / "out"))
    assert (published.path.name, published.new) == ("v0001", False)
    assert counts == dict.fromkeys(corpus.STAGES, (0, 3))
    assert note.read_bytes() == whole


def test_without_a_version_a_lost_layout_costs_everything(made: Path, tmp_path: Path) -> None:
    """No file tells it."""
    shutil.copytree(made / "out", tmp_path / "out", symlinks=True)
    (tmp_path / "out" / versions.LAYOUT_FILE).unlink()
    (tmp_path / "out/datasets/v0001/dataset.json").unlink()
    assert versions.other_layout(tmp_path / "out").endswith(": none, not 2")


def test_a_run_computes_everything_once_again(
    made: Path, other: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = {path: path.read_bytes() for path in corpus.parts(other / "out", "datasets/v0001")}
    with caplog.at_level(logging.WARNING, "uttermill"):
        published, counts = corpus.run(corpus.job(other))
    [said] = [message for message in caplog.messages if "layout" in message]
    assert said.endswith(f", not {versions.LAYOUT}; everything is computed once again")
    assert {
        name: computed for name, (computed, reused) in counts.items() if not reused
    } == dict.fromkeys(corpus.STAGES, 3)
    assert published.path.name == "v0002"
    assert old == {path: path.read_bytes() for path in old}, "the old version stays as it is"
    first, again = corpus.content(made / "out/datasets/v0001"), corpus.content(published.path)
    clips = {name for name in first if name.startswith("wenet/")}
    assert clips
    assert {name: again[name] for name in clips} == {name: first[name] for name in clips}
    assert corpus.run(corpus.job(other))[1] == dict.fromkeys(corpus.STAGES, (0, 3))


@pytest.mark.parametrize("command", ["status", "ledger", "what-if", "report", "prune"])
def test_looking_commands_say_so(
    other: Path, command: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (other / "out/runs").mkdir(exist_ok=True)
    assert cli.main([command, str(other / "out")]) == 2
    said = capsys.readouterr().err
    assert "has the layout of another release" in said
    assert "`uttermill run` computes everything in it once again" in said


def test_a_plan_says_so(other: Path) -> None:
    plan = plans.make(read(None, [str(other / "in")], str(other / "out"), SETS))
    assert "has the layout of another release" in plan["layout"]
    assert plan["stages"]["filter"]["reuse"] == 0 < plan["stages"]["filter"]["compute"]
    assert plan["hours_again"] == plan["stages"]["filter"]["hours"] > 0


def test_no_version_of_another_layout_is_continued(other: Path) -> None:
    out = other / "out"
    versions.begin_layout(out, versions.next_number(out) - 1)
    assert versions.newest(out) is None
    assert versions.next_number(out) == 2
    assert [path.name for path in versions.all_of(out)] == ["v0001"]


def test_an_out_of_this_layout_is_left_alone(made: Path) -> None:
    before = [*corpus.parts(made / "out")]
    versions.begin_layout(made / "out", 1)
    assert [*corpus.parts(made / "out")] == before
    assert versions.newest(made / "out") == made / "out/datasets/v0001"
    versions.refuse_other_layout(made / "out")


def test_a_new_out_has_a_layout_before_its_first_checkpoint(tmp_path: Path) -> None:
    assert not versions.other_layout(tmp_path)
    versions.begin_layout(tmp_path, 0)
    assert (tmp_path / versions.LAYOUT_FILE).read_text() == f"{versions.LAYOUT} 0\n"


def test_folders_of_somebody_elses_are_left_alone(made: Path, tmp_path: Path) -> None:
    own = ["manifests/cuts.jsonl.gz", "manifests/train/a.json", "audio/a.wav", "audio/b/c.wav"]
    for name in own:
        (tmp_path / "project" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "project" / name).write_bytes(b"mine")
    assert not versions.other_layout(tmp_path / "project"), "no run has been there"
    versions.begin_layout(tmp_path / "project", 0)
    shutil.copytree(made / "out", tmp_path / "project", symlinks=True, dirs_exist_ok=True)
    (tmp_path / "project" / versions.LAYOUT_FILE).write_text("0 0\n")
    versions.begin_layout(tmp_path / "project", 1)
    assert not [
        *(tmp_path / "project").glob("*/shard-*"),
        *(tmp_path / "project").glob("*/*/shard-*"),
    ]
    assert all((tmp_path / "project" / name).read_bytes() == b"mine" for name in own)
