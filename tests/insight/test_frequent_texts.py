"""The most frequent texts of a version, for its report."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from tasks.base.schema import UTTERANCES_FILE
from tasks.insight.report import frequent_texts


def write(folder: Path, texts: list[str | None], **more: list[int]) -> None:
    counts = {"num_samples": [16_000] * len(texts), "sample_rate": [16_000] * len(texts)}
    pq.write_table(pa.table({"normalised": texts, **counts, **more}), folder / UTTERANCES_FILE)


def test_texts_of_several_clips_come_by_their_number(tmp_path: Path) -> None:
    write(tmp_path, ["b", "a", "b", "once", None, None, "", "", "a", "b", "x" * 300, "x" * 300])
    found = frequent_texts.of_version(tmp_path)
    assert found[:2] == [("b", 3, 3.0), ("a", 2, 2.0)]
    assert len(found) == 3
    assert found[2].text == "x" * 200 + " …"


def test_only_the_most_frequent_ones_are_shown(tmp_path: Path) -> None:
    write(tmp_path, [f"text {n % 30:02d}" for n in range(60)])
    assert len(frequent_texts.of_version(tmp_path)) == frequent_texts.MOST


def test_no_version_and_one_of_an_old_release_have_none(tmp_path: Path) -> None:
    assert frequent_texts.of_version(None) == []
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / UTTERANCES_FILE)
    assert frequent_texts.of_version(tmp_path) == []
