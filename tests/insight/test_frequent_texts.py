"""The most frequent texts of a version, for its report."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.insight.test_report import recorded
from tests.text.test_near_texts import ADVERT
from uttermill.flows.run import report as run_report
from uttermill.tasks.base.schema import UTTERANCES_FILE
from uttermill.tasks.insight import report
from uttermill.tasks.insight.report import page
from uttermill.tasks.storage import queries


def write(folder: Path, texts: list[str | None], **more: list[int]) -> None:
    counts = {"num_samples": [16_000] * len(texts), "sample_rate": [16_000] * len(texts)}
    pq.write_table(pa.table({"normalised": texts, **counts, **more}), folder / UTTERANCES_FILE)


def test_texts_of_several_clips_come_by_their_number(tmp_path: Path) -> None:
    write(tmp_path, ["b", "a", "b", "once", None, None, "", "", "a", "b", "x" * 300, "x" * 300])
    found = page.texts_of_version(tmp_path).texts
    assert found[:2] == [("b", 3, 3.0, 1), ("a", 2, 2.0, 1)]
    assert len(found) == 3
    assert found[2].text == "x" * 200 + " …"


def test_near_equal_ones_are_one_by_the_name_of_the_most_frequent(tmp_path: Path) -> None:
    other = ADVERT.replace("finest", "best")
    write(tmp_path, ["a", ADVERT, other, "a", ADVERT])
    found = page.texts_of_version(tmp_path).texts
    assert found == [(ADVERT, 3, 3.0, 2), ("a", 2, 2.0, 1)]


def test_only_the_most_frequent_ones_are_shown(tmp_path: Path) -> None:
    write(tmp_path, [f"text {n % 30:02d}" for n in range(60)])
    assert len(page.texts_of_version(tmp_path).texts) == page.MOST_TEXTS


def test_of_a_table_of_many_row_groups_some_are_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    texts = [text for number in range(5) for text in ("a", f"text {number}")]
    clips = {"normalised": texts, "num_samples": [16_000] * 10, "sample_rate": [16_000] * 10}
    pq.write_table(pa.table(clips), tmp_path / UTTERANCES_FILE, row_group_size=2)
    assert page.texts_of_version(tmp_path) == ([("a", 5, 5.0, 1)], 5, 5)
    monkeypatch.setattr(page, "MOST_PARTS", 3)  # every second one
    assert page.texts_of_version(tmp_path) == ([("a", 3, 3.0, 1)], 3, 5)


def test_tables_keep_to_the_memory_that_the_run_was_given(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    corpus.make(tmp_path / "in", 2)
    job = corpus.job(tmp_path, package={"memory": "123MB"})
    folder = recorded(job)
    asked: list[str] = []
    tables = queries.tables

    def noted(memory: str = "default", scratch: Path | None = None, divisor: int = 1) -> object:
        asked.append(memory)
        return tables(memory, scratch, divisor)

    monkeypatch.setattr(queries, "tables", noted)
    report.build(run_report.request(job, folder))
    assert len(asked) >= 2
    assert {*asked} == {"123MB"}
