"""A plan counts the clips of which a source says another speaker, language or label."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from tests.helpers import corpus
from uttermill.tasks.insight.estimating import planning


def listed(folder: Path, **changed: str) -> Path:
    """A table of three recordings; the first one's columns `changed`."""
    path = folder / "list.csv"
    with path.open("w", newline="") as file:
        rows = csv.writer(file)
        row = {"text": "so", "speaker": "anna", "language": "en", "emotion": "glad"}
        rows.writerow(["file", *row])
        for number in range(3):
            rows.writerow([f"r{number:02d}.wav", *(row | (changed if not number else {})).values()])
    return path


def planned(tmp_path: Path, use: str, **changed: str) -> tuple[planning.Plan, int]:
    """The plan once the list has `changed`, and the clips that the run then writes."""
    corpus.make(tmp_path / "in", 3)
    path = listed(tmp_path / "in")
    source = {"kind": "table", "path": str(path), "name": "c", "labels": ["emotion"]}
    job = corpus.job(tmp_path, sources=[source], package={"formats": [use]})
    corpus.run(job)
    assert planning.plan(job, job).redescribed == 0
    listed(tmp_path / "in", **changed)
    plan = planning.plan(job, job)
    published, counts = corpus.run(job)
    assert published.new
    assert planning.plan(job, job).redescribed == 0
    return plan, counts["package"][0]


@pytest.mark.parametrize(
    ("changed", "seen"),
    [({"speaker": "ben"}, False), ({"speaker": ""}, False), ({"emotion": "sad"}, False),
     ({"emotion": ""}, False), ({"text": "so it is"}, True)],
)  # fmt: skip
@pytest.mark.nightly
def test_another_description_is_foreseen(
    tmp_path: Path, changed: dict[str, str], seen: bool
) -> None:
    """It said that the newest version would stay as it is."""
    for use, written in (("wenet", 3 * seen), ("hf_parquet", 3)):
        plan, counted = planned(tmp_path / use, use, **changed)
        assert plan.redescribed == 1
        assert plan.stages["package"].compute == counted == written
        assert [*plan.stages["package"].because] == (["sources"] if written else [])


def test_another_language_is_the_cause_of_another_transcript(tmp_path: Path) -> None:
    plan, _ = planned(tmp_path, "wenet", language="de")
    transcribe = plan.stages["transcribe"]
    assert (transcribe.compute, [*transcribe.because]) == (1, ["sources"])
