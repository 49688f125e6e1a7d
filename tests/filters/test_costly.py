"""Costly measures are spared where a cheap verdict rejects, and taken when it no longer does."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from uttermill.tasks.insight.estimating import planning, what_if

COSTLY = {"use": "tests.plugins.costly"}
COUNT = 6  # 0.4, 0.6 ... 1.4 s


@pytest.fixture
def measured(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[float]]:
    """Lengths of the clips that were measured since the last call."""
    path = tmp_path / "measured"
    monkeypatch.setenv("UTTERMILL_COUNT", str(path))

    def since() -> list[float]:
        found = sorted(map(float, path.read_text().split())) if path.exists() else []
        path.unlink(missing_ok=True)
        return found

    return since


def job(tmp: Path, longest: float, **more: Any) -> Any:
    # Listed first, and still measured last.
    filters = (COSTLY, {"use": "duration", "max": longest})
    return corpus.job(tmp, filter={"segmenter": {"use": "whole"}, "filters": filters, **more})


@pytest.mark.full
def test_only_what_cheap_filters_keep_is_measured(
    tmp_path: Path, measured: Callable[[], list[float]]
) -> None:
    corpus.make(tmp_path / "in", COUNT)
    published, counts = corpus.run(job(tmp_path, 0.9))
    assert measured() == [0.4, 0.6, 0.8]
    assert counts["filter"] == (6, 0)
    assert published.summary["reasons"]["filter.too_long"]["items"] == 3
    assert not corpus.run(job(tmp_path, 0.9))[0].new
    assert measured() == [], "what was spared was taken for missing"

    # Let in two more: only they are measured, converted and heard, all in one run.
    wide = job(tmp_path, 1.3)
    kept, _ = what_if.kept(wide, wide)
    assert kept == what_if.of_shards(wide)
    assert (kept["items"], kept["not_yet_transcribed"]["items"]) == (5, 2)
    foreseen = planning.plan(wide, job(tmp_path, 0.9))
    assert foreseen.unjudged == 2, "they may fall to what has not measured them"
    assert foreseen.stages["resample"].compute == 2
    wider, counts = corpus.run(job(tmp_path, 1.3))
    assert planning.plan(wide, wide).unjudged == 0
    assert measured() == [1.0, 1.2]
    assert counts["filter"] == (2, 4)
    assert counts["resample"] == counts["transcribe"] == (2, 3)
    rows = pq.read_table(wider.path / "utterances.parquet").to_pylist()
    assert sorted(round(row["costly"], 1) for row in rows) == [0.4, 0.6, 0.8, 1.0, 1.2]


def test_the_reason_does_not_depend_on_what_was_spared(
    tmp_path: Path, measured: Callable[[], list[float]]
) -> None:
    corpus.make(tmp_path / "in", COUNT)
    filters = ({**COSTLY, "max": 0.7}, {"use": "duration", "max": 0.9})
    for measure_all in (False, True):
        chosen = {"segmenter": {"use": "whole"}, "filters": filters, "measure_all": measure_all}
        out = tmp_path / f"out-{measure_all}"
        published, _ = corpus.run(corpus.job(tmp_path, out=out, filter=chosen))
        reasons = published.summary["reasons"]
        assert reasons["filter.too_long"]["items"] == 3
        assert reasons["filter.too_costly"]["items"] == 1


def test_measure_all_measures_all(tmp_path: Path, measured: Callable[[], list[float]]) -> None:
    corpus.make(tmp_path / "in", COUNT)
    corpus.run(job(tmp_path, 0.9))
    measured()
    published, counts = corpus.run(job(tmp_path, 0.9, measure_all=True))
    assert measured() == [1.0, 1.2, 1.4]
    assert counts["filter"] == (3, 3)
    assert not published.new, "nothing that is published changed"
