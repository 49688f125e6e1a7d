"""Prune removes what nothing needs, counts it honestly, and costs no later run anything."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus
from tests.helpers.pruned import copied
from tests.storage.test_lock import end, other_run
from uttermill.flows import cli
from uttermill.flows.cli import queries
from uttermill.flows.run import run_folder
from uttermill.flows.settings import PrepareSettings
from uttermill.tasks.base.errors import RunError
from uttermill.tasks.publish.upkeep import prune
from uttermill.tasks.publish.upkeep.prune import KeptSettings
from uttermill.tasks.publish.upkeep.verify import verify
from uttermill.tasks.settings import Plugin
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import manifest
from uttermill.tasks.shard_store.index import Index
from uttermill.tasks.storage import versions

#: Each recording in a shard of its own, so that a part holds one recording.
SHARD = {"hours": 0.0001, "settle_seconds": 0.0}
STAGES = ("shard", "filter", "resample", "transcribe")


def silence(threshold_db: float) -> dict[str, Any]:
    chosen = [{"use": "duration"}, {"use": "silence", "threshold_db": threshold_db}]
    return {"segmenter": {"use": "whole"}, "filters": chosen}


#: Settings of the four runs, each of which publishes a version.
HISTORY: tuple[dict[str, Any], ...] = (
    {"filter": silence(-65)},
    {"filter": silence(-65), "resample": {"rate": 8000}},
    {"filter": silence(-60), "resample": {"rate": 8000}},
    {"filter": silence(-55), "resample": {"rate": 8000}},
)


def job(source: Path, out: Path, **changes: Any) -> Job:
    changes.setdefault("shard", SHARD)
    changes.setdefault("sources", [{"kind": "folder", "path": str(source), "name": "c"}])
    return corpus.job(source, out=out, **changes)


def recorded(job: Job, ends: Callable[[Job], Any] = corpus.run) -> Any:
    """Run a job as the flow does: with a folder of its own under runs/."""
    stages = {name: getattr(job, name) for name in corpus.STAGES}
    settings = PrepareSettings(sources=job.sources, out=str(job.out), **stages)
    with run_folder.record(job.out, settings) as run:
        result = ends(job)
        run.finish({})
    return result


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Four recordings, four versions; never changed."""
    tmp = tmp_path_factory.mktemp("prune")
    source = corpus.make(tmp / "in", 4)
    for settings in HISTORY:
        recorded(job(source, tmp / "out", **settings))
    return tmp


@pytest.fixture
def out(base: Path, tmp_path: Path) -> Path:
    return copied(base / "out", tmp_path / "out")


def again(base: Path, out: Path, **settings: Any) -> dict[str, int]:
    """Items that another run computes, by stage."""
    _, counts = corpus.run(job(base / "in", out, **(settings or HISTORY[-1])))
    return {stage: computed for stage, (computed, _) in counts.items()}


NOTHING = dict.fromkeys(corpus.STAGES, 0)


def held(out: Path) -> int:
    """Bytes of checkpoints and versions, each inode once."""
    roots = [out / "audio", out / "datasets", *(out / "manifests" / stage for stage in STAGES)]
    files = [p for root in roots for p in root.rglob("*") if p.is_file()]
    found = {(p.lstat().st_dev, p.lstat().st_ino): p.lstat().st_size for p in files}
    return sum(found.values())


def rates(out: Path) -> set[int]:
    shards = manifest.shards(out)
    parts = [part for shard in shards for part in manifest.read(out, "resample", shard)]
    return {rate for part in parts for rate in part.table["rate"].to_pylist()}


@pytest.mark.full
def test_what_nothing_reaches_goes_and_a_rerun_computes_nothing(base: Path, out: Path) -> None:
    assert [v.name for v in versions.all_of(out)] == ["v0001", "v0002", "v0003", "v0004"]
    assert rates(out) == {8000, 16000}
    before = held(out)
    files = corpus.parts(out, "manifests", "audio", "datasets")
    told = queries.prune(out, 2)
    assert corpus.parts(out, "manifests", "audio", "datasets") == files, "only listed so far"
    assert not told["removed"]
    assert told["kept"] == ["v0003", "v0004"]
    assert told["versions"] == ["v0001", "v0002"]
    gone = {kind: entry["items"] for kind, entry in told["kinds"].items()}
    # Of each recording: the measure of the third run; PCM and transcript at 16 kHz.
    assert gone == {"versions": 2, "manifests": 4 + 4 + 4, "audio": 4, "runs": 0, "staging": 0}
    done = queries.prune(out, 2, yes=True)
    assert done == {**told, "removed": True}
    assert before - held(out) == done["freed"], "bytes that the file system has back"
    assert rates(out) == {8000}
    assert Index(out).gone() == []
    assert again(base, out) == NOTHING
    for version in versions.all_of(out):
        assert verify(version) == []
    assert not any(e["items"] for e in queries.prune(out, 2)["kinds"].values())


@pytest.mark.full
def test_tars_that_versions_share_are_no_gain(base: Path, out: Path) -> None:
    """Tars and table of v0002 live on in v0004: only those of v0001 come free."""
    tars = [(out / f"datasets/v000{n}/wenet/train/shards_000000000.tar") for n in (1, 2, 3, 4)]
    inodes = [tar.stat().st_ino for tar in tars]
    assert inodes[0] != inodes[1] == inodes[2] == inodes[3]
    entry = queries.prune(out, 1)["kinds"]["versions"]
    files = [p for n in (1, 2, 3) for p in (out / f"datasets/v000{n}").rglob("*") if p.is_file()]
    assert entry["files"] == len(files)
    assert entry["bytes"] == sum(p.stat().st_size for p in files)
    stay = {p.stat().st_ino for p in (out / "datasets/v0004").rglob("*") if p.is_file()}
    assert inodes[1] in stay
    free = {p.stat().st_ino: p.stat().st_size for p in files}
    assert entry["freed"] == sum(size for inode, size in free.items() if inode not in stay)
    assert entry["freed"] <= entry["bytes"] - 2 * tars[1].stat().st_size


@pytest.mark.full
def test_what_thresholds_rejected_is_kept(base: Path, out: Path) -> None:
    """A measure is taken once: what a looser threshold may ask for again is not computed again."""
    long = [{"use": "duration", "min": 0.9}, {"use": "silence", "threshold_db": -55}]
    strict = {**HISTORY[-1], "filter": {"segmenter": {"use": "whole"}, "filters": long}}
    strict["package"] = {"max_removed_fraction": 1.0}
    published, _ = recorded(job(base / "in", out, **strict))
    assert published.summary["utterances"]["dropped"] == 3
    queries.prune(out, 1, yes=True)
    counts = again(base, out)
    assert counts == {**NOTHING, "package": counts["package"]}


@pytest.mark.full
def test_settings_of_kept_versions_on_request(base: Path, out: Path) -> None:
    told = queries.prune(out, 4, recipes=True, yes=True)
    assert told["freed"] == 0
    told = queries.prune(out, 2, recipes=True, yes=True)
    assert told["kinds"]["audio"]["items"] == 4, "no kept version is at 16 kHz"
    assert again(base, out, **HISTORY[2])["filter"] == 0, "v0003 has these measures"


@pytest.mark.usefixtures("quick_scores")
@pytest.mark.parametrize(
    ("step", "plugin"), [("speakers", "tests.plugins.halves"), ("enhance", "tests.plugins.quieter")]
)
@pytest.mark.nightly
def test_steps_of_kept_versions_on_request(
    base: Path, tmp_path: Path, step: str, plugin: str
) -> None:
    """What a kept version was made with stays, though the step is off now."""
    out = tmp_path / "out"
    now = job(base / "in", out)
    corpus.run(now)
    then = job(base / "in", out, **{step: Plugin(use=plugin)})
    corpus.run(then)
    kept = prune.kept_versions(out, 2)
    asked = [KeptSettings(now, "")]
    spare = prune.plan(out, kept, asked).goes
    assert spare["manifests"], "nothing of now needs them"
    goes = prune.plan(out, kept, [*asked, *prune.settings_of(out, kept)]).goes
    assert (goes["manifests"], goes["audio"]) == ((), ())
    shutil.rmtree(out / "manifests/package")
    assert all(computed == 0 for computed, _ in list(corpus.run(then)[1].values())[:-1])


@pytest.mark.full
def test_the_version_that_latest_names_stays(out: Path) -> None:
    latest = out / "datasets/latest"
    latest.unlink()
    latest.symlink_to("v0001")
    assert queries.prune(out, 1, yes=True)["kept"] == ["v0001", "v0004"]
    assert (latest / "dataset.json").is_file()


@pytest.mark.nightly
def test_recordings_that_left_their_source(base: Path, tmp_path: Path) -> None:
    """Theirs stays while a kept version holds them; a source that is not mounted costs nothing."""
    source, out = tmp_path / "in", tmp_path / "out"
    shutil.copytree(base / "in", source)
    settings = {**HISTORY[-1], "package": {"max_removed_fraction": 0.5}}
    recorded(job(source, out, **settings))

    def gone(keep: int) -> int:
        return int(queries.prune(out, keep)["kinds"]["audio"]["items"])

    source.rename(tmp_path / "unmounted")
    source.mkdir()
    with pytest.raises(RunError, match="not mounted"):
        recorded(job(source, out, **settings))
    assert gone(1) == 0
    source.rmdir()
    (tmp_path / "unmounted").rename(source)
    (source / "r01.wav").unlink()
    published, _ = recorded(job(source, out, **settings))
    assert published.path.name == "v0002"
    assert (gone(2), gone(1)) == (0, 1)
    queries.prune(out, 1, yes=True)
    _, counts = corpus.run(job(source, out, **settings))
    assert all(computed == 0 for computed, _ in counts.values())
    assert verify(published.path) == []


@pytest.mark.full
def test_before_the_first_version_all_recordings_count(base: Path, tmp_path: Path) -> None:
    out = copied(base / "out", tmp_path / "out")
    shutil.rmtree(out / "datasets")
    told = queries.prune(out, 1, yes=True)
    assert told["kept"] == []
    assert told["kinds"]["audio"]["items"] == 4
    counts = again(base, out)
    assert counts == {**NOTHING, "package": 4}


def test_a_run_that_died_early(base: Path, out: Path) -> None:
    """Its settings have cut nothing yet: nobody can tell which PCM it would find, so all stays;
    that of the last run that ended well stays anyway."""

    def dies(job: Job) -> None:
        raise KeyboardInterrupt

    vad = {**HISTORY[0], "filter": {"segmenter": {"use": "vad"}}}
    with pytest.raises(KeyboardInterrupt):
        recorded(job(base / "in", out, **vad), dies)
    told = queries.prune(out, 1, yes=True)
    assert told["uncut"] == 4
    assert told["kinds"]["audio"]["items"] == 0
    assert rates(out) == {8000, 16000}
    assert again(base, out) == NOTHING


@pytest.mark.full
def test_a_damaged_filter_part_keeps_the_audio(base: Path, out: Path) -> None:
    """What it held is measured again; the PCM is found again by its recipe."""
    first = min((out / "manifests/filter/shard-000000").iterdir())
    corpus.flip(first, 100)
    manifest._parts.clear()
    assert queries.prune(out, 1, yes=True)["uncut"] == 1
    counts = again(base, out)
    assert counts["filter"] == 1
    assert counts["resample"] == counts["transcribe"] == 0


def test_a_shard_without_its_manifest_is_left_alone(out: Path) -> None:
    for path in (out / "manifests/shard/shard-000002").iterdir():
        path.unlink()
    manifest._parts.clear()
    before = [p for p in corpus.parts(out) if "shard-000002" in p.parts]
    queries.prune(out, 1, yes=True)
    assert [p for p in corpus.parts(out) if "shard-000002" in p.parts] == before


@pytest.mark.full
def test_leavings_of_dead_runs(base: Path, out: Path) -> None:
    litter = [
        out / "datasets/.staging/wenet/x.tar", out / "datasets/.staging/.x.tmp",
        out / "manifests/.listing/a.parquet", out / "manifests/filter/shard-000000/.a.tmp",
        out / "audio/shard-000000/.b.tmp", out / "datasets/.pruned-v0000/dataset.json",
        out / "runs/.pruned-x/settings.json", out / "audio/shard-000000/0123456789abcdef.pcm",
    ]  # fmt: skip
    for path in litter:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x" * 10)
    queries.prune(out, 4, recipes=True)
    assert all(path.exists() for path in litter)
    told = queries.prune(out, 4, recipes=True, yes=True)
    assert not any(path.exists() for path in litter)
    assert told["freed"] == 10 * len(litter)
    assert again(base, out) == NOTHING


def test_old_runs_go_on_request_only(out: Path) -> None:
    every = sorted(p.name for p in (out / "runs").iterdir())
    assert queries.prune(out, 4, yes=True)["runs"] == []
    (out / "runs" / every[-1] / "summary.json").unlink()  # it was refused
    assert queries.prune(out, 4, keep_runs=1, yes=True)["runs"] == every[:2]
    assert sorted(p.name for p in (out / "runs").iterdir()) == every[2:]


@pytest.mark.full
def test_the_command(out: Path, capsys: pytest.CaptureFixture[str]) -> None:
    def told(*words: str, code: int = 0) -> dict[str, Any]:
        assert cli.main(["prune", str(out), *words, "--json"]) == code
        (line,) = capsys.readouterr().out.splitlines()
        answer: dict[str, Any] = json.loads(line)
        return answer

    (out / ".lock").unlink(missing_ok=True)
    written = {path: path.lstat().st_mtime_ns for path in (out, *out.rglob("*"))}
    assert told()["kept"] == ["v0002", "v0003", "v0004"], "three stay if nothing is said"
    assert {path: path.lstat().st_mtime_ns for path in (out, *out.rglob("*"))} == written
    assert "keep at least 1" in told("--keep", "0", code=2)["error"]
    assert "must be at least 1" in told("--runs", "0", code=2)["error"]
    owner = other_run(out)
    try:
        assert f"process {owner.pid}" in told("--yes", code=4)["error"]
        assert f"process {owner.pid}" in told(code=4)["error"], "what it writes may look left over"
    finally:
        end(owner)
    assert len(versions.all_of(out)) == 4
    assert told("--keep", "1", "--yes")["removed"]
    assert [v.name for v in versions.all_of(out)] == ["v0004"]
    assert cli.main(["prune", str(out), "--keep", "1"]) == 0
    assert "Nothing to remove" in capsys.readouterr().out


@pytest.mark.full
def test_a_damaged_ledger_is_said_before_anything_goes(
    out: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ledger = out / "datasets/v0004/ledger.parquet"
    for at in range(4, ledger.stat().st_size, 500):  # where it is readable, it says other things
        corpus.flip(ledger, at)
        assert cli.main(["prune", str(out), "--yes"]) == 1
        assert "v0004" in capsys.readouterr().err
        corpus.flip(ledger, at)
    os.truncate(ledger, 100)
    assert cli.main(["prune", str(out), "--yes"]) == 1
    assert "v0004" in capsys.readouterr().err
    assert len(versions.all_of(out)) == 4


@pytest.mark.nightly
def test_a_kill_at_any_point_loses_nothing(base: Path, tmp_path: Path) -> None:
    command = [sys.executable, "-m", "tests.helpers.pruned", str(base / "out"), str(tmp_path), "5"]
    home = Path(__file__).parents[2]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=home)
    found = json.loads(done.stdout)
    assert found["calls"] > 40
    assert set(found["ended"].values()) == {signal.SIGKILL}
    whole = tmp_path / "whole"
    for at in found["ended"]:
        out = tmp_path / f"at{at}"
        assert Index(out).gone() == []
        assert versions.newest(out) == out / "datasets/v0004"
        assert all(verify(version) == [] for version in versions.all_of(out))
        assert again(base, out) == NOTHING
        queries.prune(out, 1, keep_runs=1, yes=True)
        left = [p.relative_to(out) for p in corpus.parts(out, "audio", "datasets", "runs")]
        assert left == [
            p.relative_to(whole) for p in corpus.parts(whole, "audio", "datasets", "runs")
        ]


@pytest.mark.nightly
def test_a_clock_that_was_ahead_once_misleads_nobody(
    base: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The run of next year is the older one: what is needed follows the last run."""

    class Ahead(datetime):
        @classmethod
        def now(cls, tz: tzinfo | None = None) -> datetime:  # type: ignore[override]
            return datetime.now(tz) + timedelta(days=400)

    out = tmp_path / "out"
    with monkeypatch.context() as clock:
        clock.setattr(run_folder, "datetime", Ahead)
        recorded(job(base / "in", out, **HISTORY[0]))
    recorded(job(base / "in", out, **HISTORY[1]))
    assert run_folder.settings_of(out).resample.rate == 8000
    assert run_folder.newest(out, ended_well=True) == run_folder.newest(out)
    assert len(queries.prune(out, 1, keep_runs=1)["runs"]) == 1
    queries.prune(out, 1, keep_runs=1, yes=True)
    assert run_folder.settings_of(out).resample.rate == 8000
    assert again(base, out, **HISTORY[1]) == NOTHING


@pytest.mark.full
def test_runs_of_earlier_releases_are_older(base: Path, out: Path) -> None:
    """Their folders have a time and no number for a name, here one that is still to come."""
    home = out / "runs"
    (home / run_folder.newest(out).name).rename(home / "29991231T235959.000000Z")
    recorded(job(base / "in", out, **HISTORY[0]))
    assert run_folder.settings_of(out).resample.rate == 16000
    assert [path.name[:1] for path in run_folder.having(out, run_folder.SETTINGS)][:2] == ["r", "r"]
