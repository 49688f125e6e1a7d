"""Splits keep speakers apart that somebody names. Of whom nobody knows, `plan`, the end of a run,
the card and the report say so, with the remedy."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.command import Site
from tests.helpers import corpus

WORDS = "the same person may be in two splits"


@pytest.fixture
def site(tmp_path: Path) -> Site:
    site = Site(tmp_path, "", history="none")
    for name in ("anna", "bob", "cleo"):
        corpus.make(site.source / name, 2)
    corpus.add(site.source, 4, name="lone.wav")
    return site


def source(site: Site, **options: Any) -> list[dict[str, Any]]:
    return [{"kind": "folder", "path": str(site.source), "name": "c", **options}]


def told(site: Site, settings: Path, out: str) -> list[str]:
    """What says it: of plan, run, card and report."""
    plan = site.command("plan", settings).result
    run = site.command("run", settings).result
    described = json.loads(Path(run["dataset"], "dataset.json").read_text())
    assert run.get("leaks") == described.get("leaks")
    places = {
        "plan": json.dumps(plan.get("stated", [])),
        "run": json.dumps(run),
        "card": Path(run["dataset"], "README.md").read_text(),
        "report": next((site.home / out / "runs").glob("*/report.html")).read_text(),
    }
    return [name for name, text in places.items() if WORDS in text]


@pytest.mark.nightly
def test_unknown_speakers_are_told_where_splits_are_asked_for(site: Site) -> None:
    splits = {"splits": {"dev": 0.3}}
    everywhere = ["plan", "run", "card", "report"]
    assert told(site, site.settings("plain", sources=source(site)), "plain") == []
    file = site.settings("split", sources=source(site), package=splits)
    assert told(site, file, "split") == everywhere
    assert site.command("run", file).result["leaks"]["dev"]["speaker"] is None
    ended = site.command("plan", file)
    assert ended.result["stated"] == [
        "Speakers in 'c' are unknown, so the same person may be in two splits: name speakers in "
        "the source (`speaker: parent_folder` of a folder), or set speakers.use=segments to find "
        "them"
    ]
    loose = {**splits, "disjoint": ["recording"]}
    assert told(site, site.settings("loose", sources=source(site), package=loose), "loose") == []


@pytest.mark.nightly
def test_named_speakers_are_kept_apart(site: Site) -> None:
    pattern = {"pattern": "^(?P<speaker>[^/]+)/"}
    package = {"splits": {"dev": 0.3}}
    file = site.settings("some", sources=source(site, speaker=pattern), package=package)
    planned = site.command("plan", file)
    assert planned.code == 0, planned.error
    plan = planned.result["stated"]
    assert [sentence.partition(":")[0] for sentence in plan] == [
        "Speakers of 6 of 7 recordings of the source 'c' are named",
        "Speakers of 1 of 7 recordings in 'c' are unknown, so the same person may be in two splits",
    ]
    (site.source / "lone.wav").unlink()
    file = site.settings("all", sources=source(site, speaker="parent_folder"), package=package)
    assert told(site, file, "all") == []


def test_speakers_that_segments_name_are_known(site: Site) -> None:
    (site.source / "lone.wav").unlink()
    text = "0.1\t0.2\tANNA: one\n0.3\t0.4\tBOB: two\n"
    for path in site.source.rglob("*.wav"):
        path.with_suffix(".txt").write_text(text)
    file = site.settings(
        "named", sources=source(site), package={"splits": {"dev": 0.3}},
        filter={"segmenter": {"use": "given"}},
    )  # fmt: skip
    stated = site.command("plan", file).result.get("stated", [])
    assert not [sentence for sentence in stated if "who speaks" in str(sentence)]
