"""Emilia's rule on seconds per character, per recording and with frozen bounds per language."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from uttermill.tasks.base.json_types import JsonObject
from uttermill.tasks.corpus import ROW
from uttermill.tasks.corpus.rejections import TranscribedRows
from uttermill.tasks.plugins.rules import Rejection
from uttermill.tasks.text import char_duration
from uttermill.tasks.text.char_duration import Settings


def table(rows: list[tuple[str, float, str]], **more: Any) -> pa.Table:
    """(recording, seconds, text) of each row; all kept, in English."""
    whole = [
        {
            "id": f"u{n:03d}", "dataset": "c", "recording": recording, "language": "en",
            "seconds": seconds, "text": text, "kept": True, "published": False, **more,
        }
        for n, (recording, seconds, text) in enumerate(rows)
    ]  # fmt: skip
    return pa.Table.from_pylist(whole, schema=ROW)


def rejected(
    rows: pa.Table, settings: Settings, frozen: JsonObject
) -> tuple[dict[str, Rejection], JsonObject]:
    """Rejections by id, from rows that come seven at a time; and what is frozen."""

    def parts(columns: Sequence[str]) -> Iterator[pa.Table]:
        return (rows.slice(at, 7).select(columns) for at in range(0, len(rows), 7))

    heard = TranscribedRows(parts, lambda ids: np.zeros(len(ids), bool))
    found, freezes = char_duration.reject(heard, settings, frozen)
    return {rows["id"][row].as_py(): why for row, why in found}, freezes


def steady(count: int, recording: str = "r") -> list[tuple[str, float, str]]:
    """0.1 s a character, give or take a little."""
    return [(recording, 2.0 + 0.01 * n, "abcdefghij" * 2) for n in range(count)]


@pytest.mark.parametrize(
    ("text", "count"),
    [("So, don't worry…", 12), ("", 0), (" ,.!? ", 0), ("你好，世界。", 4), ("“quoted” ‘x’", 7)],
)
def test_characters_are_counted_without_punctuation(text: str, count: int) -> None:
    assert char_duration.characters(text) == count


def test_bounds_by_hand() -> None:
    """1..9: quartiles 3 and 7 by linear interpolation, so -3 to 13."""
    assert char_duration.quartiles(np.arange(1.0, 10.0)) == [3.0, 7.0]
    assert char_duration.bounds(3.0, 7.0, 1.5) == (-3.0, 13.0)


def test_outliers_fall_whatever_their_side() -> None:
    rows = table([*steady(30), ("r", 9.0, "abcdefghij" * 2), ("r", 2.0, "abcdefghij" * 40)])
    found, frozen = rejected(rows, Settings(), {})
    assert {key: no.reason for key, no in found.items()} == {
        "u030": "slow_speech", "u031": "fast_speech",
    }  # fmt: skip
    assert found["u030"].value == pytest.approx(0.45)
    assert list(frozen) == ["c/en"]
    first, third = frozen["c/en"]
    assert found["u030"].threshold == char_duration.bounds(first, third, 1.5)[1]
    # The width is not part of what is frozen.
    wide, _ = rejected(rows, Settings(width=1000), frozen)
    assert wide == {}


def test_bounds_that_are_frozen_do_not_move() -> None:
    first, frozen = rejected(table(steady(30)), Settings(), {})
    assert first == {}
    slow = [("r", 4.0, "abcdefghij" * 2)] * 200  # a new part that is spoken slowly
    _, again = rejected(table([*steady(30), *slow]), Settings(), frozen)
    assert again == frozen
    found, _ = rejected(table([*steady(30), *slow]), Settings(), frozen)
    assert len(found) == 200
    refitted, _ = rejected(table([*steady(30), *slow]), Settings(), {})
    assert len(refitted) < 200


def test_recordings_each_have_their_own_bounds() -> None:
    per = Settings(per="recording", min_group=1)
    fast = [("fast", 1.0 + 0.005 * n, "abcdefghij" * 4) for n in range(10)]
    slow = [("slow", 8.0 + 0.005 * n, "abcdefghij") for n in range(10)]
    found, frozen = rejected(table([*fast, *slow]), per, {})
    assert (found, frozen) == ({}, {})


def test_small_groups_have_no_bounds_and_dropped_rows_count() -> None:
    rows = [*steady(10), ("r", 90.0, "abc")]
    assert rejected(table(rows), Settings(), {}) == ({}, {})
    # Rows that other verdicts rejected take part in the quartiles, and are not rejected again.
    found, frozen = rejected(table([*steady(30), rows[-1]], kept=False), Settings(), {})
    assert found == {}
    assert list(frozen) == ["c/en"]
