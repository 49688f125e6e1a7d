"""Voices over the telephone beside others: where speakers are told apart by their voices and splits
go by them, `plan`, the end of a run and its report warn that one person may be two."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import soundfile as sf

from tests.faults.command import Site
from tests.helpers import tiers
from uttermill.tasks.insight.estimating import asked_apart

WORDS = "may give a person heard in both two names"
VOICES = {"use": "tests.plugins.voiced"}
SPLITS = {"splits": {"dev": 0.3}}


def say(path: Path, person: int, rate: int) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    samples = 0.1 * np.random.default_rng([person, rate]).normal(size=2 * rate)
    samples[:2] = person / 100
    sf.write(path, samples.clip(-1, 1), rate, "FLOAT")


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    monkeypatch.setattr(asked_apart, "PATIENCE", 120.0)  # of a busy machine
    site = Site(tmp_path, "", history="none")
    for person, rate in ((1, 16000), (2, 16000), (3, 44100), (1, 8000), (4, 8000)):
        say(site.source / f"of{rate}/p{person}.wav", person, rate)
    return site


def told(site: Site, out: str, **settings: Any) -> list[str]:
    """What says it: of the plan before the run, the run, its report, and the plan after it."""
    file = site.settings(out, **settings)
    before = site.command("plan", file).result
    ran = site.command("run", file)
    assert ran.code == 0, ran.stderr
    places = {
        "plan": json.dumps(before.get("stated", [])),
        "run": ran.stderr,
        "json": json.dumps(ran.result),
        "report": next((site.home / out / "runs").glob("*/report.html")).read_text(),
        "plan after": json.dumps(site.command("plan", file).result.get("stated", [])),
    }
    return [name for name, text in places.items() if WORDS in text]


@pytest.mark.cluster
@pytest.mark.nightly
def test_both_bands_are_told_where_splits_go_by_voices(site: Site) -> None:
    everywhere = ["plan", "run", "json", "report", "plan after"]
    assert told(site, "both", speakers=VOICES, package=SPLITS) == everywhere
    file = site.settings("both", speakers=VOICES, package=SPLITS)
    (sentence,) = [s for s in site.command("plan", file).result["stated"] if WORDS in s]
    assert sentence.startswith(
        "2 recordings have the band of a telephone (below 16 kHz) and 3 a wider one: "
    )


STATED = {"kind": "folder", "name": "c", "speaker": "parent_folder"}


@pytest.mark.full
@pytest.mark.parametrize(
    ("settings", "folder"),
    [
        ({"speakers": VOICES}, ""),
        tiers.nightly({"package": SPLITS}, ""),
        tiers.nightly({"speakers": {**VOICES, "across_recordings": False}, "package": SPLITS}, ""),
        ({"speakers": VOICES, "package": {**SPLITS, "disjoint": ["recording"]}}, ""),
        tiers.nightly({"speakers": VOICES, "package": SPLITS, "sources": [STATED]}, ""),
        tiers.nightly({"speakers": VOICES, "package": SPLITS}, "of8000"),
    ],
    ids=["no splits", "no voices", "not across", "may share", "speakers stated", "one band"],
)
def test_it_is_told_nowhere_else(site: Site, settings: dict[str, Any], folder: str) -> None:
    (source,) = settings.get("sources", [{"kind": "folder", "name": "c"}])
    sources = [{**source, "path": str(site.source / folder)}]
    file = site.settings("out", **{**settings, "sources": sources})
    assert WORDS not in json.dumps(site.command("plan", file).result)


def test_a_limit_of_hours_goes_by_voices_too(site: Site) -> None:
    file = site.settings("out", speakers=VOICES, package={"max_hours_per_speaker": 1})
    assert WORDS in json.dumps(site.command("plan", file).result)
