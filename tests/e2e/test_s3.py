"""The real command on a real S3 server: sources and OUT there, races, kills, bad accounts."""

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.faults.command import Ended, Site, Started, packaged, soon
from tests.faults.kills import gated
from tests.helpers import corpus
from tests.helpers.s3_server import BUCKET, S3
from tests.plugins import gate
from uttermill.flows import cli
from uttermill.tasks import storage
from uttermill.tasks.base.environment import setting
from uttermill.tasks.publish.upkeep import checkpoints
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.storage import versions

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("one_process")]

COUNT = 8
MIDDLE = corpus.seconds_of(5)
STAGE = gate.name("transcribe", MIDDLE)
PUBLISH = gate.name("publish", 0.0)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory, s3: S3) -> Iterator[Site]:
    made = Site(tmp_path_factory.mktemp("s3"), "", s3.environment, history="none")
    corpus.make(made.source, COUNT)
    s3.upload(made.source, f"s3://{BUCKET}/e2e/in")
    yield made
    assert [p for p in made.temp.iterdir() if p.name.startswith("uttermill")] == []


@pytest.fixture(scope="module")
def quiet(site: Site, s3: S3) -> dict[str, bytes]:
    """The version that nobody disturbs, made in a folder, of the same sources."""
    out = site.undisturbed(settings(site, str(site.home / "quiet")))
    assert len(packaged(out)) == COUNT
    return corpus.content(out / "datasets/v0001")


def settings(site: Site, out: str, source: str = f"s3://{BUCKET}/e2e/in") -> Path:
    """Settings of a run whose stages pass gates."""
    path = gated(site, "x", workers=1)  # all is one shard, which a second worker would watch
    data: dict[str, Any] = yaml.safe_load(path.read_text())
    data["out"], data["sources"][0]["path"] = out, source
    data["shard"]["hours"] = 1
    path.write_text(yaml.safe_dump(data))
    return path


def version(s3: S3, out: str, number: int = 1) -> dict[str, bytes]:
    return s3.content(f"{out}/datasets/v{number:04d}")


def told(ended: Ended) -> dict[str, Any]:
    assert ended.code == 0, ended.stderr
    return ended.result


def reached(run: Started, held: Path) -> bool:
    return held.exists() or run.process.poll() is not None


def look(capsys: pytest.CaptureFixture[str], *arguments: str, code: int = 0) -> dict[str, Any]:
    """A command that only looks, in this process: what it prints with --json."""
    assert cli.main([*arguments, "--json"]) == code
    found: dict[str, Any] = json.loads(capsys.readouterr().out.splitlines()[-1])
    return found


def test_runs_from_s3_into_s3_and_every_command_on_them(
    site: Site, s3: S3, quiet: dict[str, bytes], capsys: pytest.CaptureFixture[str]
) -> None:
    """A first run, and one with a recording more."""
    source, out = f"s3://{BUCKET}/e2e/in", f"s3://{BUCKET}/e2e/whole"
    chosen = settings(site, out)
    assert told(site.run(chosen))["dataset"] == f"{out}/datasets/v0001"
    assert version(s3, out) == quiet

    with setting(s3.environment):
        stages = look(capsys, "status", out)["stages"]
        assert {stage["items_to_compute"] for stage in stages.values()} == {0}
        assert look(capsys, "ledger", out)["utterances"]["packaged"] == COUNT
        fewer = ("--set", "filter.filters.silence.min_fraction=0.97")
        assert look(capsys, "what-if", out, *fewer)["then"]["items"] == 0
        report = look(capsys, "report", out)["report"]
        assert b"<html" in s3.files().cat_file(report)[:500].lower()

        s3.files().pipe_file(f"{source}/new.wav", corpus.add(site.home / "more", 9).read_bytes())
        assert look(capsys, "status", out)["stages"]["filter"]["items_to_compute"] == 1
        grown = told(site.run(chosen))
        s3.files().rm_file(f"{source}/new.wav")
        assert grown["stages"]["filter"]["items_computed"] == 1
        assert (grown["tars"]["written"], grown["tars"]["linked"]) == (1, 1)
        assert look(capsys, "verify", f"{out}/datasets/latest", "--deep")["ok"]
        paths = look(capsys, "list", out)["paths"]
        assert sorted(name for name in version(s3, out, 2) if name.endswith(".tar")) == [
            path.removeprefix(f"{out}/datasets/v0002/") for path in paths
        ]
        data = s3.files().cat_file(paths[0])
        s3.files().pipe_file(paths[0], data[:-1] + b"x")
        [*faults] = look(capsys, "verify", out, code=3)["faults"]
        assert any("is not the file that was published" in fault for fault in faults)
        s3.files().pipe_file(paths[0], data)
        pruned = look(capsys, "prune", out, "--keep", "1", "--runs", "1", "--yes")
        assert (pruned["versions"], len(pruned["runs"])) == (["v0001"], 1)
        left = {name.split("/")[0] for name in s3.content(f"{out}/runs")}
        assert len(left - {"uttermill.prom"}) == 1
        assert look(capsys, "verify", out)["ok"]


@pytest.mark.nightly
def test_kill_of_the_whole_run_in_a_stage_and_while_publishing(
    site: Site, s3: S3, quiet: dict[str, bytes]
) -> None:
    """And a second run meanwhile is told who has OUT."""
    out = f"s3://{BUCKET}/e2e/killed"
    chosen = settings(site, out)
    for where in (STAGE, PUBLISH):
        hold = site.gate / f"{where}.hold"
        hold.touch()
        with site.start("run", chosen, "--json") as run:
            held = hold.with_suffix(".held")
            assert soon(partial(reached, run, held))
            assert held.exists(), run.stderr()
            if where == PUBLISH:
                second = site.run(chosen)
                assert (second.code, f"process {run.pid}" in second.error) == (4, True), second
            run.kill()
            assert run.none_left(60.0), run.alive()
        held.unlink()
        hold.unlink()
        assert "datasets/v0001/dataset.json" not in s3.content(out)
    assert any(name.startswith("datasets/v0001/") for name in s3.content(out))  # the torn one
    told(site.run(chosen))
    assert version(s3, out) == quiet
    assert s3.content(out)["datasets/latest"] == b"v0001"
    with setting(s3.environment):
        assert verify(versions.named(storage.place(out))) == []
        assert checkpoints.verify(storage.place(out)).faults == []


@pytest.mark.parametrize(
    ("changed", "source", "out", "words"),
    [
        ({"AWS_SECRET_ACCESS_KEY": "wrong"}, "in", f"s3://{BUCKET}/e2e/no", "access is refused"),
        ({"AWS_ACCESS_KEY_ID": "", "AWS_SECRET_ACCESS_KEY": ""}, "in", f"s3://{BUCKET}/e2e/no",
         "Unable to locate credentials"),
        ({}, "in", "s3://no-such-bucket/out", "create the bucket"),
        ({}, f"s3://{BUCKET}/e2e/nothing", "out", "no such object or folder"),
        ({}, "s3://no-such-bucket/in", "out", "no such object or folder"),
    ],
)  # fmt: skip
def test_what_cannot_work_is_said_before_anything_starts(
    site: Site, s3: S3, changed: dict[str, str], source: str, out: str, words: str,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    import s3fs

    source = source if "://" in source else str(site.source)
    out = out if "://" in out else str(site.home / "refused")
    chosen = settings(site, out, source)
    s3fs.S3FileSystem.clear_instance_cache()  # it has the account of the tests
    with setting({**s3.environment, **changed}):
        ended = look(capsys, "run", str(chosen), code=2)
    s3fs.S3FileSystem.clear_instance_cache()
    assert words in ended["error"]
    assert s3.environment["AWS_SECRET_ACCESS_KEY"] not in ended["error"]
