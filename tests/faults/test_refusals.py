"""Refusals: an exit code, one sentence that helps, and nothing started or published."""

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.faults.command import Ended, Site, soon
from tests.helpers import corpus, tiers
from tests.plugins import gate

COUNT = 4


@pytest.fixture(autouse=True)
def recordings(tmp_path: Path) -> None:
    """In the folder of every site of a test."""
    corpus.make(tmp_path / "in", COUNT)


def says(ended: Ended, code: int, *words: str) -> None:
    """Exit code, the same one sentence on stdout and stderr, no traceback."""
    assert ended.code == code, ended.stderr
    assert ended.result["exit"] == code
    for word in words:
        assert word in ended.error
    assert "\n" not in ended.error
    assert ended.stderr.splitlines()[-1] == f"uttermill: {ended.error}"
    assert "Traceback" not in ended.stderr


def nothing_began(site: Site) -> bool:
    """A run that begins anything makes a folder for its log before it starts workers."""
    return not (site.home / "out/runs").exists() and not any(site.temp.glob("uttermill-*"))


def unpublished(out: Path) -> bool:
    return not list(out.glob("datasets/*"))


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"resample": {"rte": 8000}}, ("resample.rte", "rate, mono, channels_cancel, resampler")),
        ({"resample": {"resampler": {"use": "sox"}}}, ("'sox'", "no resampler", "soxr_hq")),
        ({"sources": [{"kind": "folder", "path": "/no/podcasts"}]}, ("/no/podcasts",)),
        ({"cluster": {"workers": 0}}, ("cluster.workers",)),
    ],
    ids=["setting", "plug-in", "source", "number"],
)
def test_bad_settings(bare: Site, changes: dict[str, Any], words: tuple[str, ...]) -> None:
    says(bare.run(bare.settings("out", **changes)), 2, *words)
    assert nothing_began(bare)


def test_an_out_that_cannot_be_written(bare: Site) -> None:
    (bare.home / "file").write_text("a file, no folder")
    says(bare.command("run", bare.settings("file")), 2, str(bare.home / "file"))
    ended = bare.run(bare.settings("file/below"))
    says(ended, 2, str(bare.home / "file/below"), "another folder")
    assert not any(bare.temp.glob("uttermill-*"))


def test_usage(bare: Site) -> None:
    says(bare.command("run"), 2, "--source")
    says(bare.command("run", "--source", bare.source), 2, "--out")
    says(bare.command("run", bare.home / "nowhere.yaml"), 2, "nowhere.yaml")
    says(bare.command("status", bare.home), 2, "holds no runs/")
    says(bare.command("status", bare.home / "nowhere"), 2, "there is no such folder")


@pytest.mark.cluster
@pytest.mark.parametrize("own_server", tiers.few([False, True], True))
@pytest.mark.nightly
def test_ctrl_c(site: Site, own_server: bool) -> None:
    """130, no process left (its own server neither), and the next run goes on from there."""
    if own_server:
        site = replace(site, api="")
    gated = {"filters": [{"use": "tests.plugins.gated_filter"}]}
    settings = site.settings("out", filter=gated)
    hold = site.gate / f"{gate.name('filter', corpus.seconds_of(1))}.hold"
    hold.touch()
    with site.start("run", settings, "--json") as run:
        assert soon(hold.with_suffix(".held").exists), run.stderr()
        began = time.monotonic()
        run.interrupt()
        ended = run.end()
        took = time.monotonic() - began
        assert run.none_left(), run.alive()
    says(ended, 130, "interrupted")
    assert not any(site.temp.glob("uttermill-*"))
    assert unpublished(site.home / "out")
    hold.unlink()
    assert took < 30, "Prefect must not wait for a server that is gone"
    bare = replace(site, history="none")
    again = bare.done(bare.settings("out", filter=gated))
    assert again.result["utterances"]["packaged"] == COUNT


@pytest.mark.cluster
def test_the_second_run_names_the_first_which_sigterm_ends(bare: Site) -> None:
    """A run in the background of a script (`nohup … &`), where SIGINT is ignored."""
    bare = replace(bare, interruptible=False)
    settings = bare.settings("out", filter={"filters": [{"use": "tests.plugins.gated_filter"}]})
    hold = bare.gate / f"{gate.name('filter', corpus.seconds_of(1))}.hold"
    hold.touch()
    with bare.start("run", settings, "--json") as run:
        assert soon(hold.with_suffix(".held").exists), run.stderr()
        says(bare.run(settings), 4, f"process {run.pid} ", str(bare.home / "out"))
        run.interrupt()
        time.sleep(1)
        assert run.process.poll() is None, "control: SIGINT is ignored"
        run.process.terminate()
        ended = run.end()
        assert run.none_left(), run.alive()
    says(ended, 143, "interrupted")
    assert not any(bare.temp.glob("uttermill-*"))
