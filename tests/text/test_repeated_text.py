"""The rule on texts that many clips have."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tests.helpers import corpus
from tests.text.test_near_texts import ADVERT
from uttermill.tasks.corpus import rejections
from uttermill.tasks.insight.estimating import what_if
from uttermill.tasks.settings import Plugin
from uttermill.tasks.text import repeated_text

COLUMNS = ("id", "normalised", "seconds", "kept")


def dropped(
    rows: Sequence[tuple[str, str | None, float, bool]],
    published: Sequence[str] = (),
    **settings: Any,
) -> dict[str, tuple[float | None, float | None]]:
    """(value, limit) of each rejected clip, by id."""
    table = pa.Table.from_pylist([dict(zip(COLUMNS, row, strict=True)) for row in rows])
    seen = rejections.TranscribedRows(
        lambda columns: [table.select([*columns])],
        lambda ids: np.isin(ids.to_pylist(), [*published]),
    )
    found, _ = repeated_text.reject(seen, repeated_text.Settings(**settings), {})
    return {rows[at][0]: (no.value, no.threshold) for at, no in found}


def clips(count: int, text: str = ADVERT) -> list[tuple[str, str | None, float, bool]]:
    return [(f"u{n:02d}", text, 2.5, True) for n in range(count)]


def test_more_clips_of_a_text_than_asked_are_dropped() -> None:
    rows = [*clips(5), ("v", "another one", 2.5, True), ("w", None, 2.5, True)]
    assert dropped(rows) == {}, "generous unless asked"
    assert dropped(rows, max_times=3) == {"u03": (4.0, 3.0), "u04": (5.0, 3.0)}
    assert dropped(rows[::-1], max_times=3).keys() == {"u03", "u04"}
    assert dropped(rows, ["u04"], max_times=3).keys() == {"u02", "u03"}, "published ones stay"


def test_clips_that_other_rules_dropped_do_not_count() -> None:
    rows = [(name, text, seconds, name != "u00") for name, text, seconds, _ in clips(4)]
    assert dropped(rows, max_times=2).keys() == {"u03"}


def test_the_limit_may_be_seconds() -> None:
    rows = clips(4)
    assert dropped(rows, max_times=None, max_seconds=5) == {"u02": (7.5, 5.0), "u03": (10.0, 5.0)}
    assert dropped(rows, max_times=None, max_seconds=0).keys() == {"u01", "u02", "u03"}
    both = dropped(rows, max_times=3, max_seconds=5)
    assert both == {"u03": (4.0, 3.0), "u02": (7.5, 5.0)}


@pytest.mark.parametrize("near", [True, False])
def test_near_equal_texts_count_as_one(near: bool) -> None:
    rows = [*clips(2), ("v", f"and {ADVERT}", 2.5, True)]
    assert (dropped(rows, max_times=2, near=near).keys() == {"v"}) is near


@pytest.mark.full
def test_a_run_drops_them_and_a_night_keeps_what_is_published(tmp_path: Path) -> None:
    folder = corpus.make(tmp_path / "in")
    texts = {f"r{n:02d}": f"{ADVERT}, {n % 2}!" for n in range(1, 9, 2)}

    def job(count: int, **settings: Any) -> Any:
        listed = corpus.listed(folder, count, tmp_path / "list.jsonl", **texts)
        sources = [{"kind": "jsonl", "path": str(listed), "name": "c"}]
        rule = Plugin.model_validate({"use": "repeated_text", **settings})
        verdicts = (Plugin(use="empty_text"), rule)
        return corpus.job(tmp_path, sources=sources, transcribe={"verdicts": verdicts})

    def kept(version: Path) -> set[str]:
        texts = pq.read_table(version / "utterances.parquet").to_pylist()
        return {row["source_id"] for row in texts if ADVERT in row["text"]}

    first = corpus.run(job(6, max_times=2))[0].path
    stays = kept(first)
    assert len(stays) == 2
    ledger = pq.read_table(first / "ledger.parquet").to_pylist()
    lost = [row for row in ledger if row["reason"] == "repeated_text"]
    assert [(row["outcome"], row["stage"], row["value"]) for row in lost] == [
        ("dropped", "package", 3.0)
    ]
    second, stages = corpus.run(job(10, max_times=2))
    assert kept(second.path) == stays
    assert stages["transcribe"][0] == 4
    # Another limit is free, and `what-if` says what it would do.
    before = corpus.content(second.path)
    now, then = what_if.kept(job(10, max_times=2), job(10, max_times=1))
    assert (now["items"], then["items"]) == (8, 7)
    third, stages = corpus.run(job(10, max_times=1))
    assert (len(kept(third.path)), stages["transcribe"][0]) == (1, 0)
    assert corpus.content(second.path) == before
