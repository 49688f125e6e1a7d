"""`plan` counts the clips that package writes again or leaves out where nothing is computed."""

from __future__ import annotations

from collections.abc import Container
from pathlib import Path
from typing import Any

import pytest

from tests.helpers import corpus, tiers
from uttermill.tasks.insight.estimating import planning
from uttermill.tasks.settings.job import Job

HELD = {"package": {"formats": [{"use": "hf_parquet"}]}}
COMPUTED = dict.fromkeys(corpus.STAGES[:-1], (0, 10))


def asked(home: Path, **changes: Any) -> Job:
    source = {"kind": "jsonl", "path": str(home / "all.jsonl"), "name": "c"}
    return corpus.job(home, sources=[source], **changes)


@pytest.fixture
def home(tmp_path: Path) -> Path:
    texts = {f"r{n:02d}": f"Reference, number {n}." for n in range(10)}
    corpus.listed(corpus.make(tmp_path / "in"), 10, tmp_path / "all.jsonl", **texts)
    return tmp_path


@pytest.mark.full
@pytest.mark.parametrize(
    ("before", "after", "written"),
    [
        ({}, {"package": {"weights": {"c": 0.5}}}, range(1, 10)),
        tiers.nightly({"package": {"weights": {"c": 0.5}}}, {}, range(1, 11)),
        tiers.nightly(
            {"package": {"weights": {"c": 0.4}}}, {"package": {"weights": {"c": 0.7}}}, range(1, 10)
        ),
        tiers.nightly({}, {"package": {"splits": {"dev": 0.2}}}, [10]),
        tiers.nightly(
            {"package": {"splits": {"dev": 0.2}}}, {"package": {"splits": {"dev": 0.3}}}, [0]
        ),
        tiers.nightly({}, {"package": {"text_form": "normalised"}}, [10]),
        tiers.nightly({}, {"transcribe": {"text": "asr"}}, [10]),
        ({"filter": corpus.filters({"use": "peak"}), **HELD}, HELD, [10]),  # a format holds them
        tiers.nightly({"filter": corpus.filters({"use": "peak"})}, {}, [0]),
    ],
    ids=[
        *("weight", "no_weight", "more_weight", "splits", "fractions", "text_form", "text"),
        *("measures", "no_measures"),
    ],
)
def test_what_package_alone_changes_is_foreseen(
    home: Path, before: dict[str, Any], after: dict[str, Any], written: Container[int]
) -> None:
    corpus.run(asked(home, **before))
    plan = planning.plan(asked(home, **after), asked(home, **before))
    package = plan.stages["package"]
    foreseen = {name: (each.compute, each.reuse) for name, each in plan.stages.items()}
    published, done = corpus.run(asked(home, **after))
    assert foreseen == done == COMPUTED | {"package": (package.compute, package.reuse)}
    assert plan.clips[1] == published.summary["utterances"]["packaged"]
    assert package.compute in written
    assert bool(package.compute) == bool(package.because)
