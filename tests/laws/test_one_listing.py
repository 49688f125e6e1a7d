"""A run lists each folder of checkpoints once; all that look share that listing."""

import json
import os
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.cli.test_plan_command import written
from tests.helpers import corpus
from tests.helpers.shared_server import Server
from uttermill.flows import cli, settings
from uttermill.flows.cli.run_commands import agreed
from uttermill.flows.run import launch, plans
from uttermill.tasks import pipeline, plugins
from uttermill.tasks.plugins import Dataset
from uttermill.tasks.publish.outcomes import shard_batches
from uttermill.tasks.recording import Ignored, Recording
from uttermill.tasks.settings.job import Job
from uttermill.tasks.shard_store.index import ROOTS, Index
from uttermill.tasks.stages.listing import entries

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


# A command lists each source once, however often it looks at what the sources hold.


COUNT = 4


class Looks:
    """How many entries of each source were listed."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.entries = Counter[str]()
        real = plugins.loading.datasets

        def datasets(sources: Any) -> list[Dataset]:
            return [dataset._replace(source=self.counting(dataset)) for dataset in real(sources)]

        patch.setattr(plugins, "datasets", datasets)

    def counting(self, dataset: Dataset) -> Any:
        looks, name, source = self.entries, dataset.name, dataset.source

        class Counting:
            def __getattr__(self, what: str) -> Any:
                return getattr(source, what)

            def recordings(self, own: Any) -> Iterator[Recording | Ignored]:
                for entry in source.recordings(own):
                    looks[name] += 1
                    yield entry

        return Counting()


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> Looks:
    return Looks(monkeypatch)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """Settings of a folder and a list."""
    corpus.make(tmp_path / "in", COUNT)
    (tmp_path / "in/notes.txt").write_text("not audio")
    corpus.listed(corpus.make(tmp_path / "more", COUNT), COUNT, tmp_path / "list.jsonl")
    sources = [
        {"kind": "folder", "path": str(tmp_path / "in"), "name": "folder"},
        {"kind": "jsonl", "path": str(tmp_path / "list.jsonl"), "name": "list"},
    ]
    return written(tmp_path, sources=sources, cluster={"workers": 1}, history="none")


ONCE = {"folder": COUNT + 1, "list": COUNT}


def ran(capsys: pytest.CaptureFixture[str], *words: str) -> dict[str, Any]:
    assert cli.main([*words, "--json"]) == 0
    told: dict[str, Any] = json.loads(capsys.readouterr().out)
    return told


@pytest.mark.cluster
@pytest.mark.nightly
def test_a_run_with_its_plan(
    file: Path, looks: Looks, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    """The first, one with nothing to do, and one with a new recording; none keeps its listing."""
    told = ran(capsys, "run", str(file))
    assert (told["recordings"]["in"], told["ignored"]) == (2 * COUNT, {"extension": 1})
    assert looks.entries == ONCE
    for more in (0, 1):
        if more:
            corpus.add(tmp_path / "in", COUNT)
        looks.entries.clear()
        told = ran(capsys, "run", str(file))
        assert told["ignored"] == {"extension": 1}
        assert told["stages"]["shard"]["items_computed"] == more
        assert looks.entries == {**ONCE, "folder": ONCE["folder"] + more}


@pytest.mark.cluster
@pytest.mark.server
@pytest.mark.nightly
def test_a_run_and_an_estimate_in_prefect(file: Path, looks: Looks, prefect_api: Server) -> None:
    chosen = settings.read(str(file), [], None, ["history=server"])
    assert launch.estimate(chosen, settings.SampleSettings())["sample"]["of"] == 2 * COUNT
    assert looks.entries == ONCE
    looks.entries.clear()
    assert launch.run(chosen)["recordings"]["in"] == 2 * COUNT
    assert looks.entries == ONCE


@pytest.mark.nightly
def test_listings_end_with_the_run_and_with_a_question(
    file: Path, looks: Looks, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    chosen = settings.read(str(file), [], None, [])
    with entries.listed_once():
        pipeline.run_here(chosen.job())
        corpus.add(tmp_path / "in", COUNT)
        looks.entries.clear()
        monkeypatch.setattr(plans, "ASKS", -1.0)
        monkeypatch.setattr(sys, "stdin", answering := Answering("y\n"))
        monkeypatch.setattr(sys, "stderr", Answering(""))
        answering.meanwhile = lambda: corpus.add(tmp_path / "in", COUNT + 1)
        assert agreed(chosen, False)
        assert looks.entries["folder"] == ONCE["folder"] + 1
        _, stages = pipeline.run_here(chosen.job())
        assert stages["shard"]["items_computed"] == 2, "a person took time to answer"


class Answering:
    """A terminal at which somebody types an answer, while something else happens."""

    meanwhile: Any = None

    def __init__(self, answer: str) -> None:
        self.answer = answer

    def isatty(self) -> bool:
        return True

    def readline(self) -> str:
        self.meanwhile()
        return self.answer

    def write(self, text: str) -> int:
        return len(text)

    def flush(self) -> None: ...


def test_a_listing_with_speakers_is_another_one(file: Path, looks: Looks) -> None:
    """RTTM files are read with the listing, if the diarizer uses them."""
    job = settings.read(str(file), [], None, []).job()
    given = settings.read(str(file), [], None, ["speakers.use=given"]).job()
    with entries.listed_once():
        for each in (job, given, job):
            corpus.surveyed(each)
            assert entries.holds_recordings(each, plugins.datasets(each.sources)[0])
    assert looks.entries == {name: 2 * count for name, count in ONCE.items()}
