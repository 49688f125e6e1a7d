"""What a stage stored of a shard in several files is put into one, and nobody can tell."""

import logging
import os
import random
import shutil
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers import corpus, tiers
from tests.helpers.signals import forked
from uttermill.tasks import pipeline, storage
from uttermill.tasks.base.schema import AnyRow
from uttermill.tasks.publish.upkeep import checkpoints
from uttermill.tasks.runs.executor import Executor
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store import blobs, manifest
from uttermill.tasks.shard_store.index import Index
from uttermill.tasks.shard_store.shard_view import ShardView
from uttermill.tasks.stages import compaction, contract, stage
from uttermill.tasks.storage import versions

STAGES = stage.PER_SHARD
SHARD = "shard-000000"
WHOLE: dict[str, Any] = {"hours": 1.0, "settle_seconds": 0.0}  # all recordings in one shard


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return corpus.make(tmp_path_factory.mktemp("compaction") / "in")


def job(small: Path, out: Path, **changes: Any) -> Job:
    sources = [{"kind": "folder", "path": str(small), "name": "c"}]
    return corpus.job(small, out=out, sources=sources, shard=WHOLE, **changes)


def often(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every unit is committed by itself, as units of minutes are."""
    monkeypatch.setattr(stage, "COMMIT_EVERY", -1.0)


def scattered(monkeypatch: pytest.MonkeyPatch) -> None:
    """As releases before compaction, and runs that were killed, leave a shard."""
    often(monkeypatch)
    monkeypatch.setattr(compaction, "compact", lambda *_: False)


@pytest.fixture(scope="module")
def many(small: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """OUT in which filter and resample left a file of each commit; take a copy."""
    out = tmp_path_factory.mktemp("many") / "out"
    chosen = job(small, out)
    versions.begin_layout(out, 0)
    pipeline.run_shard_stage(chosen, Executor(), chosen.listing)
    with pytest.MonkeyPatch.context() as before:
        scattered(before)
        for name in ("filter", "resample"):
            stage.run(name, chosen, SHARD)
    return out


@pytest.fixture
def out(many: Path, tmp_path: Path) -> Path:
    """Such an OUT, for one test."""
    return Path(shutil.copytree(many, tmp_path / "out"))


def files(out: Path, shard: str = SHARD) -> dict[str, int]:
    """Files of each stage of a shard."""
    homes = {name: manifest.folder(out, name, shard) for name in STAGES}
    homes["audio"] = blobs.folder(out, shard)
    return {name: len(storage.names(home)) for name, home in homes.items()}


ONE = {**dict.fromkeys(STAGES, 1), "audio": 1}


def tree(out: Path) -> dict[str, bytes]:
    newest = versions.newest(out)
    assert newest is not None
    return corpus.content(newest)


@pytest.fixture(scope="module")
def quiet(small: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What a run publishes that commits once a stage."""
    out = tmp_path_factory.mktemp("quiet") / "out"
    corpus.run(job(small, out))
    assert files(out) == ONE
    return tree(out)


@pytest.mark.full
def test_many_commits_end_in_one_file_of_each_stage(
    small: Path, tmp_path: Path, quiet: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    often(monkeypatch)
    out = tmp_path / "out"
    corpus.run(job(small, out))
    assert files(out) == ONE
    assert tree(out) == quiet
    assert checkpoints.verify(out).faults == []
    parts = manifest.read(out, "resample", SHARD)
    assert len(parts) > 5, "each commit is still told apart"
    assert len({part.path for part in parts}) == 1


@pytest.mark.full
def test_a_run_joins_what_a_killed_one_left(
    small: Path, out: Path, quiet: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as before:
        scattered(before)
        stage.run("transcribe", job(small, out), SHARD)
    published, counts = corpus.run(job(small, out))
    assert files(out) == ONE
    assert tree(out) == quiet
    assert all(counts[name][0] == 0 for name in STAGES), "nothing was computed again"
    again, counts = corpus.run(job(small, out))
    assert not again.new
    assert {computed for computed, _ in counts.values()} == {0}
    assert again.path == published.path


@pytest.mark.nightly
def test_another_rate_stays_apart_so_that_prune_can_remove_it(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often(monkeypatch)
    out = tmp_path / "out"
    corpus.run(job(small, out))
    corpus.run(job(small, out, resample={"rate": 8000}))
    assert files(out) == {"filter": 1, "resample": 2, "transcribe": 2, "audio": 2}


@pytest.mark.nightly
def test_a_lower_limit_joins_what_it_lets_in(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    often(monkeypatch)
    out = tmp_path / "out"
    corpus.run(job(small, out, filter=corpus.filters(min=1.5)))
    _, counts = corpus.run(job(small, out))
    assert counts["resample"][1] > 0
    assert files(out) == ONE
    corpus.run(job(small, tmp_path / "other", filter=corpus.filters(min=1.5)))
    corpus.run(job(small, tmp_path / "other"))
    assert tree(out) == tree(tmp_path / "other")
    assert checkpoints.verify(out).faults == []


@pytest.mark.full
def test_damage_is_not_copied_into_a_joined_blob(
    small: Path, out: Path, quiet: dict[str, bytes]
) -> None:
    path = storage.names(blobs.folder(out, SHARD))[3]
    data = bytearray(path.read_bytes())
    data[100] ^= 1
    path.write_bytes(data)
    corpus.run(job(small, out))
    assert files(out) == ONE
    assert tree(out) == quiet
    assert checkpoints.verify(out).faults == []


@pytest.mark.parametrize("seed", tiers.few(range(3), 0))
@pytest.mark.nightly
def test_killed_anywhere_while_it_joins(
    small: Path, out: Path, quiet: dict[str, bytes], seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    """Each row counts once, no PCM is lost, and nobody is told of files that are gone."""
    base = out
    Index(base).note_files()
    rows = _rows(base)
    chance = random.Random(seed)
    points = [0, *sorted(chance.sample(range(1, _points(small, base), 1), 7))]
    for at in points:
        out = base.with_name(f"at{at}")
        shutil.copytree(base, out)
        assert forked(_die_at, small, out, at) == signal.SIGKILL
        assert _rows(out) == rows
        assert checkpoints.verify(out).faults == []
        with caplog.at_level(logging.WARNING, "uttermill"):
            _, counts = corpus.run(job(small, out))
        assert "gone" not in caplog.text
        assert counts["filter"][0] == counts["resample"][0] == 0
        assert files(out) == ONE
        assert tree(out) == quiet


def _rows(out: Path) -> list[tuple[str, bytes]]:
    """Recipe and samples of each row of PCM."""
    found = []
    for part in manifest.read(out, "resample", SHARD, manifest.refuse):
        for row in part.table.to_pylist():
            found.append((row["audio"], np.asarray(blobs.read(out, SHARD, row)).tobytes()))
    return found


EVENTS = {"open", "os.rename", "os.remove"}


def _counts(event: str, args: tuple[Any, ...], out: Path) -> bool:
    written = event != "open" or "w" in str(args[1]) or int(args[2] or 0) & os.O_WRONLY
    return event in EVENTS and bool(written) and str(out) in str(args[0])


def _die_at(small: Path, out: Path, at: int) -> None:
    """In a child, which joins the files: at change number `at` of OUT, end as kill -9 ends."""
    calls = 0

    def watch(event: str, args: tuple[Any, ...]) -> None:
        nonlocal calls
        if _counts(event, args, out):
            if calls == at:
                os.kill(os.getpid(), signal.SIGKILL)
            calls += 1

    chosen = job(small, out)
    sys.addaudithook(watch)
    for name in ("filter", "resample"):
        stage.run(name, chosen, SHARD)
    out.with_name("calls").write_text(str(calls))


def _points(small: Path, base: Path) -> int:
    """How many changes joining makes."""
    whole = base.with_name("whole")
    shutil.copytree(base, whole)
    assert forked(_die_at, small, whole, 10**6) == 0
    assert files(whole)["resample"] == 1
    return int(base.with_name("calls").read_text())


def test_blobs_that_are_large_stay_as_they_are(
    small: Path, tmp_path: Path, quiet: dict[str, bytes], monkeypatch: pytest.MonkeyPatch
) -> None:
    often(monkeypatch)
    monkeypatch.setattr(compaction, "BLOB_BYTES", 1)
    out = tmp_path / "out"
    corpus.run(job(small, out))
    sizes = [path.stat().st_size for path in storage.names(blobs.folder(out, SHARD))]
    assert len(sizes) > 1
    assert files(out)["resample"] == 1
    assert tree(out) == quiet


def test_pcm_that_was_made_again_is_there_once(
    small: Path, out: Path, quiet: dict[str, bytes]
) -> None:
    storage.names(blobs.folder(out, SHARD))[0].unlink()
    corpus.run(job(small, out))
    recipes = [audio for audio, _ in _rows(out)]
    assert len(recipes) == len(set(recipes))
    assert tree(out) == quiet


@pytest.mark.full
def test_quarantine_is_lifted_in_a_joined_file(
    small: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One item of many had died; the others stay."""
    often(monkeypatch)
    out = tmp_path / "out"
    chosen = job(small, out)
    with monkeypatch.context() as dying:
        real = stage.Sink.add

        def add(sink: stage.Sink, rows: Sequence[AnyRow]) -> None:
            if sink.stage == "transcribe" and len(sink.rows) == 0 and not failed:
                failed.append(str(rows[0]["transcript"]))
                module = contract.find("transcribe")
                unit = module.todo(ShardView(chosen, SHARD))[0][0]
                rows = module.failure(unit, "crashed", "")
            real(sink, rows)

        failed: list[str] = []
        dying.setattr(stage.Sink, "add", add)
        corpus.run(chosen)
    assert files(out) == ONE
    retry = {**WHOLE, "retry": True}
    _, counts = corpus.run(replace(chosen, shard=chosen.shard.model_copy(update=retry)))
    assert counts["transcribe"][0] == 1
    assert files(out) == ONE
    assert checkpoints.verify(out).faults == []
