"""Odd files (`tests.helpers.oddities`) beside FFmpeg's own decoder."""

from pathlib import Path

from tests.helpers import oddities


def test_the_odd_ones_are_all_right(tmp_path: Path) -> None:
    odd = [oddities.judged(case, tmp_path) for case in oddities.oddities()]
    assert len(odd) > 100
    wrong = [row for row in odd if row["verdict"] not in ("same", "ours right")]
    assert {row["what"] for row in wrong} == {"no samples"}  # both refuse them
    assert {row["verdict"] for row in wrong} == {"refused alike"}
