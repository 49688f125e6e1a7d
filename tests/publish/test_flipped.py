"""Every checkpoint flipped, emptied, deleted: `verify --deep` names it, and how to mend it."""

import json
import random
import re
import shutil
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from uttermill.flows import cli
from uttermill.tasks.base import shelves
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.publish.upkeep.prune import KeptSettings
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest


def job(home: Path, **changes: Any) -> Job:
    """One that publishes every format of the shelf, over `home/list.jsonl`."""
    return corpus.job(
        home, sources=[{"kind": "jsonl", "path": str(home / "list.jsonl"), "name": "c"}],
        transcribe={"backend": {"use": "fake"}, "reference_words": True},
        package={"formats": shelves.names("formats")}, **changes,
    )  # fmt: skip


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An OUT with one version in every format of the shelf, and the times of its words; never
    changed."""
    tmp = tmp_path_factory.mktemp("flipped")
    corpus.listed(corpus.make(tmp / "in", 3), 3, tmp / "list.jsonl")
    corpus.run(job(tmp))
    return tmp / "out"


@pytest.fixture
def out(whole: Path, tmp_path: Path) -> Path:
    shutil.copytree(whole, tmp_path / "out", symlinks=True)
    return tmp_path / "out"


def said(capsys: pytest.CaptureFixture[str], version: Path, *flags: str, code: int = 3) -> str:
    """What `verify` says; its exit code must be `code`."""
    capsys.readouterr()
    assert cli.main(["verify", str(version), *flags, "--json"]) == code
    answer: dict[str, Any] = json.loads(capsys.readouterr().out)
    assert answer["ok"] == (code == 0)
    return "\n".join(answer["faults"])


@pytest.mark.nightly
def test_checkpoints_are_verified_on_request(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    version = out / "datasets/v0001"
    assert said(capsys, version, "--deep", code=0) == ""
    chance = random.Random(12)
    paths = [p for p in corpus.parts(out) if p.suffix in (".parquet", ".pcm")]
    paths = [p for p in paths if p.parent.name != "package"]
    assert {p.relative_to(out).parts[-3:-1][0] for p in paths} >= {"filter", "resample", "audio"}
    for path in paths:
        name = path.relative_to(out).as_posix()
        data = path.read_bytes()
        corpus.flip(path, chance.randrange(len(data)))
        assert name in said(capsys, version, "--deep"), f"a flipped byte of {name}"
        path.write_bytes(b"")
        assert name in said(capsys, version, "--deep"), f"{name} was emptied"
        path.unlink()
        assert name in said(capsys, version, "--deep"), f"{name} was deleted"
        path.write_bytes(data)
    assert said(capsys, version, "--deep", code=0) == ""
    assert said(capsys, version, code=0) == ""
    assert corpus.parts(out) == sorted(corpus.parts(out)), "it sets nothing aside"


@pytest.mark.full
def test_a_version_that_was_moved_has_no_checkpoints(
    out: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    moved = (out / "datasets/v0001").rename(tmp_path / "v0001")
    assert said(capsys, moved, code=0) == ""
    assert cli.main(["verify", str(moved), "--deep"]) == 2
    assert "lies in no OUT" in capsys.readouterr().err


def test_what_runs_and_prunes_take_away_is_no_fault(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """A snapshot of a shard that a newer one replaced, and what a prune removed."""
    (path,) = (out / "manifests/shard/shard-000000").iterdir()
    newer = manifest.read(out, "shard", "shard-000000")[-1].table
    manifest.commit(out, "shard", "shard-000000", newer.to_pylist(), newer.schema, {})
    path.unlink()
    assert said(capsys, out / "datasets/latest", "--deep", code=0) == ""
    job = corpus.job(out.parent, out=out, resample={"rate": 8000})
    plan = prune.plan(out, prune.kept_versions(out, 1), [KeptSettings(job, "")])
    assert plan.goes["audio"]
    prune.carry_out(plan)
    assert said(capsys, out / "datasets/latest", "--deep", code=0) == ""


@pytest.mark.nightly
def test_what_is_removed_as_the_remedy_says_is_made_again(
    whole: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`verify --deep` named a damaged blob, and left its reader to guess what to do."""
    kept = corpus.parts(whole, "audio", *(f"manifests/{stage}" for stage in corpus.STAGES[:4]))
    decided = sorted(whole.glob("manifests/package/facts/*/*.[ap]*"))
    assert {path.suffix for path in (*kept, *decided)} == {".pcm", ".parquet", ".arrow"}
    published = corpus.content(whole / "datasets/v0001")
    for number, path in enumerate((*kept, *decided)):
        out = tmp_path / str(number)
        shutil.copytree(whole, out, symlinks=True)
        victim = out / path.relative_to(whole)
        corpus.flip(victim, victim.stat().st_size // 2)
        name, place = REMEDY.fullmatch(remedy_of(out, capsys)).groups()  # type: ignore[union-attr]
        assert place == str(out)
        assert victim.is_relative_to(out / name)
        if (out / name).is_dir():
            shutil.rmtree(out / name)
        else:
            (out / name).unlink()
        again, _ = corpus.run(job(whole.parent, out=out))
        assert said(capsys, again.path, "--deep", code=0) == ""
        assert again.path == out / "datasets/v0001"
        assert corpus.content(again.path) == published
        if path.suffix == ".pcm":
            assert victim.read_bytes() == path.read_bytes()
            victim.unlink()
            assert remedy_of(out, capsys).startswith("the next run makes again what is gone")


REMEDY = re.compile(r"remove (\S+) in (\S+); the next run makes it again from the sources, .*")


def remedy_of(out: Path, capsys: pytest.CaptureFixture[str]) -> str:
    """The remedy that `verify --deep` names, the same for people as in JSON."""
    command = ["verify", str(out / "datasets/v0001"), "--deep"]
    capsys.readouterr()
    assert cli.main([*command, "--json"]) == 3
    found: str = json.loads(capsys.readouterr().out)["remedy"]
    assert cli.main(command) == 3
    shown = "".join(capsys.readouterr().out.split())
    assert shown.endswith(f"Remedy:{found}.".replace(" ", ""))
    return found
